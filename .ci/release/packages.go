package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes a deb and an rpm.
func (r *release) packages(b built) error {
	contents, err := r.installed(b)
	if err != nil {
		return err
	}
	for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		info := r.info(b)
		info.Contents = contents
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := packager.Package(info, &out); err != nil {
			return err
		}
		if err := r.put(packager.ConventionalFileName(info), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// info describes the package. The binary is static: it depends on nothing.
func (r *release) info(b built) *nfpm.Info {
	scripts := filepath.Join(r.source, "configs", "systemd")
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "weir", Arch: b.arch, Platform: b.system, Version: r.number, Release: "1",
		Section: "net", Priority: "optional", Maintainer: "The weir authors", License: "Apache-2.0",
		Description: "serving engine for language models and classical models\n" +
			"weir serves language models and text encoders from GGUF files on the CPU,\n" +
			"with an OpenAI-compatible API, and models of XGBoost, LightGBM, CatBoost and\n" +
			"ONNX with the APIs of KServe and Triton.",
		MTime: r.at, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Recommends: []string{"ca-certificates"}, // for hubs and registries
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall.sh"),
				PreRemove:   filepath.Join(scripts, "preremove.sh"),
				PostRemove:  filepath.Join(scripts, "postremove.sh"),
			},
			Deb: nfpm.Deb{Compression: "gzip"}, // which every dpkg reads
			RPM: nfpm.RPM{Compression: "zstd", BuildHost: "localhost", Summary: "Serving engine for language models and classical models"},
		},
	})
}

// places are where shared files go in a package: by folder or name, for one kind of package where it says so.
var places = []struct {
	from, to, kind, format string
}{
	{"LICENSE", "/usr/share/doc/weir/copyright", "", "deb"},
	{"LICENSE", "/usr/share/licenses/weir/LICENSE", files.TypeRPMLicense, "rpm"},
	{"NOTICE", "/usr/share/doc/weir/NOTICE", "", ""},
	{"CHANGELOG.md", "/usr/share/doc/weir/CHANGELOG.md", "", ""},
	{"README.md", "/usr/share/doc/weir/README.md", "", ""},
	{"CONTRIBUTING.md", "/usr/share/doc/weir/CONTRIBUTING.md", "", ""},
	{"SECURITY.md", "/usr/share/doc/weir/SECURITY.md", "", ""},
	{"api/", "/usr/share/doc/weir/api/", "", ""},
	{"bench/", "/usr/share/doc/weir/bench/", "", ""},
	{"docs/", "/usr/share/doc/weir/docs/", "", ""},
	{"configs/weir.example.yml", "/etc/weir/weir.yml", files.TypeConfigNoReplace, ""},
	{"configs/", "/usr/share/doc/weir/configs/", "", ""},
	{"configs/systemd/weir.service", "/usr/lib/systemd/system/weir.service", "", ""},
	{"man/man1/", "/usr/share/man/man1/", "", ""},
	{"completions/weir.bash", "/usr/share/bash-completion/completions/weir", "", ""},
	{"completions/_weir", "/usr/share/zsh/vendor-completions/_weir", "", "deb"},
	{"completions/_weir", "/usr/share/zsh/site-functions/_weir", "", "rpm"},
	{"completions/weir.fish", "/usr/share/fish/vendor_completions.d/weir.fish", "", ""},
}

// installed writes the files of a package to disk, where nfpm reads them, and says where each goes.
func (r *release) installed(b built) (files.Contents, error) {
	contents := files.Contents{r.content(b.path, "/usr/bin/weir", "", "", 0o755)}
	stage := filepath.Join(r.work, b.String(), "stage")
	for _, f := range r.shared {
		for _, p := range places {
			rest, under := strings.CutPrefix(f.name, p.from)
			if !under || (rest != "" && !strings.HasSuffix(p.from, "/")) {
				continue
			}
			to, data := p.to+rest, f.data
			switch {
			case strings.HasPrefix(f.name, "man/"):
				to, data = to+".gz", gzipped(data)
			case strings.HasSuffix(to, ".service"):
				data = bytes.ReplaceAll(data, []byte("/usr/local/"), []byte("/usr/"))
			}
			at := filepath.Join(stage, filepath.FromSlash(to))
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return nil, err
			}
			if err := os.WriteFile(at, data, 0o644); err != nil {
				return nil, err
			}
			contents = append(contents, r.content(at, path.Clean(to), p.kind, p.format, 0o644))
		}
	}
	return contents, nil
}

func (r *release) content(from, to, kind, format string, mode os.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, Type: kind, Packager: format,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.at}}
}
