package registry

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
)

// DefaultTag is the tag of a name that has none.
const DefaultTag = "latest"

// Bounds of references, in bytes.
const (
	maxNameBytes   = 200
	minDigestHex   = 8 // of an abbreviated digest
	sha256HexBytes = 64
)

// A name is one of OCI's repositories, with an upper case that hubs have, and may begin with a host and its port. A tag is OCI's.
var (
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9]+(?:(?:[._]|__|-+)[a-zA-Z0-9]+)*(?::[0-9]{1,5}(?:/[a-zA-Z0-9]+(?:(?:[._]|__|-+)[a-zA-Z0-9]+)*)+)?(?:/[a-zA-Z0-9]+(?:(?:[._]|__|-+)[a-zA-Z0-9]+)*)*$`)
	tagPattern  = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
	hexPattern  = regexp.MustCompile(`^[0-9a-f]+$`)
)

// Ref names a version: by an alias, which moves, or by its digest, which does not.
type Ref struct {
	Name string // "chat", "ORG/model", "registry.example.com:5000/team/chat"; empty only beside a Digest
	Tag  string // empty beside a Digest
	// Digest is "sha256:HEX", where local lookups take an unambiguous beginning of at least 8 digits.
	Digest string
}

// ParseRef reads NAME, NAME:TAG, NAME@TAG, NAME@sha256:HEX and sha256:HEX. A name alone has the tag "latest".
func ParseRef(text string) (Ref, error) {
	if hex, ok := strings.CutPrefix(text, "sha256:"); ok {
		return newRef(text, Ref{Digest: "sha256:" + hex})
	}
	name, version, found := strings.Cut(text, "@")
	if found {
		if strings.HasPrefix(version, "sha256:") {
			// NAME:TAG@DIGEST says both; the digest decides.
			if last := strings.LastIndexByte(name, ':'); last > strings.LastIndexByte(name, '/') {
				name = name[:last]
			}
			return newRef(text, Ref{Name: name, Digest: version})
		}
		return newRef(text, Ref{Name: name, Tag: version})
	}
	ref := Ref{Name: text, Tag: DefaultTag}
	if last := strings.LastIndexByte(text, ':'); last > strings.LastIndexByte(text, '/') {
		ref = Ref{Name: text[:last], Tag: text[last+1:]}
	}
	return newRef(text, ref)
}

func newRef(text string, r Ref) (Ref, error) {
	wrong := func(why string) (Ref, error) {
		return Ref{}, fmt.Errorf("%.300q is no reference: %s; give NAME, NAME:TAG or NAME@sha256:DIGEST", text, why)
	}
	switch hex := strings.TrimPrefix(r.Digest, "sha256:"); {
	case r.Name == "" && r.Digest == "":
		return wrong("it has no name")
	case len(r.Name) > maxNameBytes:
		return wrong(fmt.Sprintf("its name has more than %d bytes", maxNameBytes))
	case r.Name != "" && !namePattern.MatchString(r.Name):
		return wrong(fmt.Sprintf("the name %.60q may have letters, digits, and single . _ - / between them", r.Name))
	case r.Digest == "" && !tagPattern.MatchString(r.Tag):
		return wrong(fmt.Sprintf("the tag %.60q may have letters, digits and . _ -, 128 of them at most", r.Tag))
	case r.Digest != "" && (len(hex) < minDigestHex || len(hex) > sha256HexBytes || !hexPattern.MatchString(hex)):
		return wrong(fmt.Sprintf("a digest is sha256: and %d to %d lower-case hexadecimal digits", minDigestHex, sha256HexBytes))
	}
	return r, nil
}

// String is what ParseRef reads.
func (r Ref) String() string {
	switch {
	case r.Digest == "":
		return r.Name + ":" + r.Tag
	case r.Name == "":
		return r.Digest
	}
	return r.Name + "@" + r.Digest
}

// matches reports whether a version has the digest that the reference begins.
func (r Ref) matches(d digest.Digest) bool { return strings.HasPrefix(string(d), r.Digest) }
