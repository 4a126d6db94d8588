package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// built is a binary and its platform.
type built struct {
	platform
	path string
}

// build links the binary for a platform. Nothing of this machine goes into it: no path, no state of the checkout, no setting of the
// environment.
func (r *release) build(p platform) (built, error) {
	name := "weir"
	if p.system == "windows" {
		name += ".exe"
	}
	b := built{p, filepath.Join(r.work, p.String(), name)}
	if _, err := os.Stat(b.path); err == nil {
		return b, nil
	}
	flags := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", r.described, r.commit)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags", "all=-dwarf=false", "-ldflags", flags, "-o", b.path, "./cmd/weir")
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off")
	return b, cmd.Run()
}

// file is one of an archive, a package or an image.
type file struct {
	name string // with slashes, relative
	mode fs.FileMode
	data []byte
}

// carried are the files of the checkout that go with every binary.
var carried = []string{
	"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/*/*",
	"api/predict/oip/inference.proto", "bench/README.md", "configs/*.example.yml", "configs/prometheus/*.yml", "configs/grafana/*.json", "configs/systemd/*.service",
}

// carry reads the files that go with every binary.
func (r *release) carry() error {
	for _, pattern := range carried {
		names, err := filepath.Glob(filepath.Join(r.source, filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no %s in the checkout (%w)", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(r.source, name)
			if err != nil {
				return err
			}
			r.shared = append(r.shared, file{filepath.ToSlash(relative), 0o644, data})
		}
	}
	return nil
}

// collect reads what is the same on every platform, and has a binary for this machine write manual pages and completions.
func (r *release) collect() error {
	if err := r.carry(); err != nil {
		return err
	}
	here, err := r.build(platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "weir.bash", "zsh": "_weir", "fish": "weir.fish"} {
		text, err := exec.Command(here.path, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completions of %s: %w", shell, err)
		}
		r.shared = append(r.shared, file{"completions/" + name, 0o644, text})
	}
	if err := r.manual(here.path); err != nil {
		return err
	}
	slices.SortFunc(r.shared, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return nil
}

func (r *release) manual(binary string) error {
	folder := filepath.Join(r.work, "man")
	if said, err := exec.Command(binary, "man", folder).CombinedOutput(); err != nil {
		return fmt.Errorf("manual pages: %w: %s", err, said)
	}
	pages, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(folder, page.Name()))
		if err != nil {
			return err
		}
		r.shared = append(r.shared, file{"man/man1/" + page.Name(), 0o644, data})
	}
	return nil
}

// gzipped compresses as distributions compress manual pages: best, without a name or a time.
func gzipped(data []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(data) // to memory
	_ = z.Close()
	return b.Bytes()
}
