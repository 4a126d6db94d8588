package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
)

// archive packs the binary with what is shared: a zip for Windows, a tar.gz for others, with one folder in it.
func (r *release) archive(b built) error {
	binary, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	stem := "weir_" + r.number + "_" + b.String()
	files := []file{{path.Join(stem, filepath.Base(b.path)), 0o755, binary}}
	for _, f := range r.shared {
		f.name = path.Join(stem, f.name)
		files = append(files, f)
	}
	write, ending := tarGzip, ".tar.gz"
	if b.system == "windows" {
		write, ending = zipped, ".zip"
	}
	data, err := write(files, r.at)
	if err != nil {
		return err
	}
	return r.put(stem+ending, data)
}

func (r *release) put(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

func tarGzip(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := writeTar(z, files, at); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeTar writes files that belong to root.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func zipped(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
