package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

const sumsName = "SHA256SUMS"

// sums writes the digests of all artefacts, as sha256sum --check reads them.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, e := range entries {
		if e.Name() == sumsName {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return r.put(sumsName, b.Bytes())
}
