package folder

import (
	"os"
	"path"
	"strings"

	"weir/router/registry"
	"weir/router/registry/hub"
)

// AsReference reads a reference from what is no path of a file: a version in the models folder, or something that can be
// pulled, which is there under the name that a pull gives it.
func AsReference(text string) (registry.Ref, bool) {
	if text == "" {
		return registry.Ref{}, false
	}
	if _, err := os.Stat(text); err == nil {
		return registry.Ref{}, false
	}
	source, err := hub.New(os.Getenv).Parse(text)
	switch {
	case err == nil && source.Kind != hub.OCI:
		text = source.Name
	case strings.HasSuffix(text, ".gguf"):
		return registry.Ref{}, false
	}
	ref, err := registry.ParseRef(text)
	return ref, err == nil
}

// BaseName is a short name of a version.
func BaseName(ref registry.Ref) string {
	if ref.Name == "" {
		return strings.ReplaceAll(ShortDigest(ref.Digest), ":", "-")
	}
	return path.Base(ref.Name)
}
