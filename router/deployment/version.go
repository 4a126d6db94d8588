package deployment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxVersionBytes bounds the name of a version.
const maxVersionBytes = 512

// shownDigits is how much of a digest names a version.
const shownDigits = 12

// resourceDigits is how much of the digest of resources tells a version with them from the same without.
const resourceDigits = 8

// LabelOf is the name of a version within its model: what was asked for, where a digest has its first digits. A version with
// resources of its own is another one than that which the configuration may have under the same label, and has a piece of
// their digest behind it.
func LabelOf(version string, resources map[string]string) string {
	label := version
	if i := strings.Index(version, "sha256:"); i >= 0 {
		digest := version[i:]
		label = digest[:min(len(digest), len("sha256:")+shownDigits)]
	}
	if len(resources) == 0 {
		return label
	}
	text, _ := json.Marshal(resources) // strings by sorted keys
	sum := sha256.Sum256(text)
	return label + "-" + hex.EncodeToString(sum[:])[:resourceDigits]
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
	case slices.ContainsFunc(strings.Split(version, "/"), func(part string) bool { return part == "." || part == ".." }):
		return fmt.Errorf("version is %.80q; a version is no path: no part of it between slashes is a dot or two", version)
	}
	return nil
}

// IsPlain reports whether a version can only be a label or a tag: it has nothing that a name in the models folder or on a
// hub would need beside its model's.
func IsPlain(version string) bool { return !strings.ContainsAny(version, ":/@") }
