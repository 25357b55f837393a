package notebook

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

// shrink scales img to MaxImageSide and encodes it below MaxImageSize: as PNG
// where that is enough, for charts stay sharp, else as JPEG, smaller and
// smaller.
func shrink(img image.Image, photo bool) (Image, error) {
	scaled := scale(img, MaxImageSide)
	if !photo {
		var b bytes.Buffer
		if err := png.Encode(&b, scaled); err != nil {
			return Image{}, err
		}
		if b.Len() < MaxImageSize {
			return asImage("image/png", b.Bytes(), scaled), nil
		}
	}
	for side := MaxImageSide; side >= 64; side = side * 3 / 4 {
		scaled = scale(scaled, side)
		for _, quality := range []int{85, 60} {
			var b bytes.Buffer
			if err := jpeg.Encode(&b, onWhite(scaled), &jpeg.Options{Quality: quality}); err != nil {
				return Image{}, err
			}
			if b.Len() < MaxImageSize {
				return asImage("image/jpeg", b.Bytes(), scaled), nil
			}
		}
	}
	return Image{}, errors.New("cannot be made small enough")
}

func asImage(mime string, b []byte, img image.Image) Image {
	size := img.Bounds().Size()
	return Image{MIME: mime, Data: b, Width: size.X, Height: size.Y}
}

// scale makes the larger side of img at most side pixels.
func scale(img image.Image, side int) image.Image {
	size := img.Bounds().Size()
	if max(size.X, size.Y) <= side {
		return img
	}
	w, h := side, max(1, size.Y*side/size.X)
	if size.Y > size.X {
		w, h = max(1, size.X*side/size.Y), side
	}
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.BiLinear.Scale(dst, dst.Bounds(), img, img.Bounds(), draw.Src, nil)
	return dst
}

// onWhite fills what is transparent: JPEG would make it black.
func onWhite(img image.Image) image.Image {
	if o, ok := img.(interface{ Opaque() bool }); ok && o.Opaque() {
		return img
	}
	dst := image.NewRGBA(img.Bounds())
	draw.Draw(dst, dst.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(dst, dst.Bounds(), img, img.Bounds().Min, draw.Over)
	return dst
}
