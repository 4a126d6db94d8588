// Command release makes the artefacts of a release in a folder:
//
//	release -version v0.1.0 -commit 0123456789ab -platforms linux/amd64,windows/arm64 FOLDER
//
// For each platform an archive and a bill of materials; for Linux a deb, an rpm and a part of the OCI image; and SHA256SUMS of them. The
// same commit, version, SOURCE_DATE_EPOCH and Go give the same bytes. It runs in .ci/release; `make release` starts it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	r := release{source: filepath.Join("..", "..")}
	described := flag.String("version", "", "what git describe says of the commit")
	flag.StringVar(&r.commit, "commit", "", "the commit")
	platforms := flag.String("platforms", "linux/amd64", "systems and architectures, with commas between them")
	flag.Parse()
	err := errors.New("name one folder for the artefacts")
	if flag.NArg() == 1 {
		r.out = flag.Arg(0)
		err = r.run(*described, *platforms)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what all artefacts are made of.
type release struct {
	source    string // the checkout
	out       string // gets the artefacts
	described string // as `weir version` says it: v0.1.0
	number    string // as packages have it: 0.1.0
	commit    string
	at        time.Time // of all that has a time

	work   string // what is used on the way
	shared []file // in every archive and package
}

type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "_" + p.arch }

func (r *release) run(described, platforms string) (err error) {
	r.described = described
	if r.number, err = numbered(described); err != nil {
		return err
	}
	if err = r.checkHeading(); err != nil {
		return err
	}
	if r.at, err = epoch(); err != nil {
		return err
	}
	if r.out, err = emptied(r.out); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "weir-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := r.collect(); err != nil {
		return err
	}
	linux, err := r.platforms(strings.Split(platforms, ","))
	if err != nil {
		return err
	}
	if len(linux) > 0 {
		if err := r.image(linux); err != nil {
			return fmt.Errorf("the image: %w", err)
		}
	}
	return r.sums()
}

// platforms builds and packs for each platform, for two of them at a time, and returns the binaries for Linux.
func (r *release) platforms(names []string) ([]built, error) {
	var all errgroup.Group
	all.SetLimit(2) // a linker takes a gigabyte
	done := make([]built, len(names))
	for i, name := range names {
		all.Go(func() (err error) {
			system, arch, ok := strings.Cut(name, "/")
			if !ok {
				return fmt.Errorf("%q is no platform; name one as linux/arm64", name)
			}
			if done[i], err = r.build(platform{system, arch}); err == nil {
				err = r.pack(done[i])
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	err := all.Wait()
	return slices.DeleteFunc(done, func(b built) bool { return b.system != "linux" }), err
}

// pack makes the artefacts of one platform.
func (r *release) pack(b built) error {
	if err := r.archive(b); err != nil {
		return err
	}
	if err := r.bill(b); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	if b.system != "linux" {
		return nil
	}
	return r.packages(b)
}

func epoch() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q; set it to the commit's time, as git log -1 --format=%%ct tells it", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// emptied makes a folder for artefacts; one with other files in it is left alone.
func emptied(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(folder, sumsName)); err != nil {
			return "", fmt.Errorf("%s holds files and no %s: it is no folder of artefacts; name another one or empty it", folder, sumsName)
		}
		if err := os.RemoveAll(folder); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, sumsName), nil, 0o644) // by which the next release knows it, if this one fails
}
