package notebook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/webp"
)

// Bounds of the images in one result.
const (
	MaxImages    = 8
	MaxImageSide = 1568    // pixels; models scale down what is larger
	MaxImageSize = 750_000 // bytes, which is a million in base64

	// A picture that would decode to more than this is not decoded: it may be
	// a few hundred bytes that ask for all our memory.
	maxPixels = 24 << 20
)

// Image is a picture to be sent as it is, decoded once to be sure that it is
// one.
type Image struct {
	MIME          string // by its bytes, whatever the notebook called it
	Data          []byte // not base64
	Width, Height int
}

var errNoImage = errors.New("no png, jpeg, gif or webp")

// format is how one kind of picture is known and read.
type format struct {
	mime   string
	is     func([]byte) bool
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

func starts(magic string) func([]byte) bool {
	return func(b []byte) bool { return strings.HasPrefix(string(b[:min(len(b), len(magic))]), magic) }
}

var formats = []format{
	{"image/png", starts("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode},
	{"image/jpeg", starts("\xff\xd8\xff"), jpeg.DecodeConfig, jpeg.Decode},
	{"image/gif", starts("GIF8"), gif.DecodeConfig, gif.Decode},
	{"image/webp", isWebP, webp.DecodeConfig, webp.Decode},
}

func isWebP(b []byte) bool {
	return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP"
}

// sniff finds the format of b and its dimensions without decoding it.
func sniff(b []byte) (format, image.Config, error) {
	for _, f := range formats {
		if f.is(b) {
			c, err := f.config(bytes.NewReader(b))
			if err != nil {
				return f, c, fmt.Errorf("damaged %s: %w", f.mime, err)
			}
			return f, c, nil
		}
	}
	return format{}, image.Config{}, errNoImage
}

// readImage decodes b and makes it fit MaxImageSide and MaxImageSize. Bytes
// that fit already stay as they are, animation and all.
func readImage(b []byte) (Image, error) {
	f, c, err := sniff(b)
	if err != nil {
		return Image{}, err
	}
	if c.Width <= 0 || c.Height <= 0 || c.Width > maxPixels/c.Height {
		return Image{}, fmt.Errorf("%s of %d×%d pixels is too large to decode", f.mime, c.Width, c.Height)
	}
	img, err := f.decode(bytes.NewReader(b))
	if err != nil {
		return Image{}, fmt.Errorf("damaged %s: %w", f.mime, err)
	}
	if len(b) < MaxImageSize && max(c.Width, c.Height) <= MaxImageSide {
		return Image{MIME: f.mime, Data: b, Width: c.Width, Height: c.Height}, nil
	}
	return shrink(img, f.mime == "image/jpeg")
}

// fromBase64 reads base64 with any whitespace, of either alphabet, padded or
// not: notebooks have all of these.
func fromBase64(s string) ([]byte, error) {
	clean := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; c {
		case ' ', '\n', '\r', '\t', '\v', '\f':
		case '-':
			clean = append(clean, '+')
		case '_':
			clean = append(clean, '/')
		default:
			clean = append(clean, c)
		}
	}
	clean = bytes.TrimRight(clean, "=")
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(clean)))
	n, err := base64.RawStdEncoding.Decode(out, clean)
	return out[:n], err
}
