package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

//go:embed files
var embedded embed.FS

// file is one embedded file in the codings that it is sent in.
type file struct {
	kind   string // its media type
	plain  []byte
	packed func() codings
}

// codings are a file's bytes, compressed as well as they can be; nil: it gets no smaller.
type codings struct{ zstd, gzip []byte }

// in is the file in the best coding of an Accept-Encoding header, and that coding; "" is none.
func (f *file) in(accept string) (body []byte, coding string) {
	packed := f.packed()
	switch {
	case packed.zstd != nil && takes(accept, "zstd"):
		return packed.zstd, "zstd"
	case packed.gzip != nil && takes(accept, "gzip"):
		return packed.gzip, "gzip"
	}
	return f.plain, ""
}

// takes reports whether an Accept-Encoding header names a coding, and not with the weight 0.
func takes(accept, coding string) bool {
	for item := range strings.SplitSeq(accept, ",") {
		name, weight, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			return strings.Trim(strings.TrimSpace(weight), "0.") != "q="
		}
	}
	return false
}

func newFile(kind string, plain []byte) *file {
	return &file{kind: kind, plain: plain, packed: sync.OnceValue(func() codings { return pack(plain) })}
}

func pack(plain []byte) (c codings) {
	var out bytes.Buffer
	if w, err := gzip.NewWriterLevel(&out, gzip.BestCompression); err == nil {
		_, _ = w.Write(plain) // a buffer takes everything
		_ = w.Close()
		c.gzip = smaller(out.Bytes(), plain)
	}
	if e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1)); err == nil {
		c.zstd = smaller(e.EncodeAll(plain, nil), plain)
	}
	return c
}

func smaller(packed, plain []byte) []byte {
	if len(packed) >= len(plain) {
		return nil
	}
	return packed
}

// tree is all that is embedded, by path below files/.
type tree struct {
	files   map[string]*file
	version string // of all files together
}

var everything = sync.OnceValue(func() *tree {
	t := &tree{files: map[string]*file{}}
	sum := sha256.New()
	err := fs.WalkDir(embedded, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		kind, served := kinds[path.Ext(name)]
		if !served {
			return nil
		}
		name = strings.TrimPrefix(name, "files/")
		t.files[name] = newFile(kind, plain)
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(plain), plain) // a hash takes everything
		return nil
	})
	if err != nil {
		panic("read what is embedded: " + err.Error()) // the linker has put it there
	}
	t.version = hex.EncodeToString(sum.Sum(nil))[:16]
	return t
})

// kinds are the media types of the files that are served, by extension.
var kinds = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}
