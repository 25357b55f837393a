package notebook

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

// noise is a picture that does not compress, the same one each time.
func noise(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(rnd.Uint32())
	}
	return img
}

func pngOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, w, h)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pngHeader promises a picture of w×h and has none of it.
func pngHeader(w, h uint32) []byte {
	ihdr := binary.BigEndian.AppendUint32([]byte("IHDR"), w)
	ihdr = binary.BigEndian.AppendUint32(ihdr, h)
	ihdr = append(ihdr, 8, 6, 0, 0, 0)
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), ihdr...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(ihdr))
}

// A one-pixel lossless WebP (as in the format's own description).
var webpPixel = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")

// R6
func TestTheFourFormatsAreRead(t *testing.T) {
	var g bytes.Buffer
	if err := gif.Encode(&g, image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White}), nil); err != nil {
		t.Fatal(err)
	}
	for want, b := range map[string][]byte{
		"image/png":  pngOf(t, noise(3, 2)),
		"image/jpeg": jpegOf(t, 3, 2),
		"image/gif":  g.Bytes(),
		"image/webp": webpPixel,
	} {
		img, err := readImage(b)
		if err != nil || img.MIME != want || !bytes.Equal(img.Data, b) {
			t.Errorf("%s: %v, %s", want, err, img.MIME)
		}
	}
}

// R6: at most 1568 pixels a side and 1 MB, also as base64.
func TestLargePicturesAreScaled(t *testing.T) {
	flat := image.NewGray(image.Rect(0, 0, 4000, 1000))
	for _, c := range []struct {
		name          string
		img           image.Image
		mime          string
		width, height int // 0: only bounded
	}{
		{"a wide chart stays sharp", flat, "image/png", 1568, 392},
		{"a tall one", image.NewGray(image.Rect(0, 0, 10, 20_000)), "image/png", 1, 1568},
		{"noise becomes a photo", noise(1700, 400), "image/jpeg", 0, 0},
		{"small but heavy", noise(500, 500), "image/jpeg", 500, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			img, err := readImage(pngOf(t, c.img))
			if err != nil {
				t.Fatal(err)
			}
			f, conf, err := sniff(img.Data)
			if err != nil || f.mime != img.MIME || conf.Width != img.Width || conf.Height != img.Height {
				t.Fatalf("%v: %s %d×%d, but says %s %d×%d", err, f.mime, conf.Width, conf.Height, img.MIME, img.Width, img.Height)
			}
			if img.MIME != c.mime || max(img.Width, img.Height) > MaxImageSide || len(img.Data) >= MaxImageSize {
				t.Errorf("%s %d×%d, %d bytes", img.MIME, img.Width, img.Height, len(img.Data))
			}
			if c.width > 0 && (img.Width != c.width || img.Height != c.height) {
				t.Errorf("%d×%d, want %d×%d", img.Width, img.Height, c.width, c.height)
			}
		})
	}
}

func TestTransparencyBecomesWhite(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 4, 4))
	if got := onWhite(img).At(1, 1); got != (color.RGBA{255, 255, 255, 255}) {
		t.Errorf("%v", got)
	}
}

func TestABombIsNotDecoded(t *testing.T) {
	_, err := readImage(pngHeader(1<<30, 1<<30))
	if err == nil {
		t.Fatal("decoded")
	}
	if _, err = readImage(pngHeader(20_000, 20_000)); err == nil || !strings.Contains(err.Error(), "20000×20000 pixels is too large") {
		t.Errorf("%v", err)
	}
}
