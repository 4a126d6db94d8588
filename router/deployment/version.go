package deployment

import (
	"errors"
	"fmt"
	"strings"
)

// maxVersionBytes bounds the name of a version.
const maxVersionBytes = 512

// shownDigits is how much of a digest names a version.
const shownDigits = 12

// LabelOf is the name of a version within its model: what was asked for, where a digest has its first digits.
func LabelOf(version string) string {
	if i := strings.Index(version, "sha256:"); i >= 0 {
		digest := version[i:]
		return digest[:min(len(digest), len("sha256:")+shownDigits)]
	}
	return version
}

// CheckVersion refuses what names no version.
func CheckVersion(version string) error {
	switch {
	case version == "":
		return errors.New("version is missing; give the label of a version that the servers have, a name in the models folder such as chat:v2 or chat@sha256:…, or one on a hub such as hf.co/ORG/REPO:Q4_K_M")
	case len(version) > maxVersionBytes:
		return fmt.Errorf("version has %d bytes, limit %d", len(version), maxVersionBytes)
	case strings.ContainsFunc(version, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("version is %.80q; a version has no spaces and no control characters", version)
	}
	return nil
}

// IsPlain reports whether a version can only be a label or a tag: it has nothing that a name in the models folder or on a
// hub would need beside its model's.
func IsPlain(version string) bool { return !strings.ContainsAny(version, ":/@") }
