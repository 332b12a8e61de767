package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
)

// archives writes one archive a platform: zip for Windows, else tar.gz.
func (d *dist) archives() error {
	readme, err := d.source("README.md")
	if err != nil {
		return err
	}
	for _, b := range d.builds {
		name := fmt.Sprintf("herdr-link-%s-%s-%s", d.version, b.goos, b.goarch)
		files := append([]file{{"README.md", 0o644, readme}, b.binary}, d.notices...)
		for i := range files {
			files[i].name = name + "/" + files[i].name
		}
		pack, suffix := d.tarball, ".tar.gz"
		if b.goos == "windows" {
			pack, suffix = d.zipped, ".zip"
		}
		var packed bytes.Buffer
		if err := pack(&packed, files); err != nil {
			return err
		}
		if err := d.write("", file{name + suffix, 0o644, packed.Bytes()}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dist) tarball(w io.Writer, files []file) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: d.when, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func (d *dist) zipped(w io.Writer, files []file) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: d.when}
		h.SetMode(f.mode)
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}
