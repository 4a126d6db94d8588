package tenant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
)

// MinStaticKeyBytes is the least length of a key that a setting holds, so that
// keys cannot be guessed.
const MinStaticKeyBytes = 8

// staticKeys are those of --api-key: each stands for a tenant of its own. Comparing
// hashes takes the same time whatever the key, and a dump of memory shows no key.
type staticKeys struct{ hashes [][sha256.Size]byte }

func newStaticKeys(keys []string) staticKeys {
	var s staticKeys
	for _, k := range keys {
		s.hashes = append(s.hashes, sha256.Sum256([]byte(k)))
	}
	return s
}

// find returns the name of a key's tenant.
func (s staticKeys) find(key string) (name string, ok bool) {
	if len(s.hashes) == 0 || key == "" {
		return "", false
	}
	sum := sha256.Sum256([]byte(key))
	found := 0
	for i := range s.hashes {
		found |= subtle.ConstantTimeCompare(s.hashes[i][:], sum[:])
	}
	if found != 1 {
		return "", false
	}
	return staticName(sum), true
}

func staticName(sum [sha256.Size]byte) string { return staticPrefix + hex.EncodeToString(sum[:8]) }

// isStaticName reports whether a name is one that staticName gives.
func isStaticName(name string) bool {
	digits := strings.TrimPrefix(name, staticPrefix)
	return len(digits) == 16 && consistsOf(digits, "0123456789abcdef")
}

// names reports whether a key's tenant has this name.
func (s staticKeys) names(name string) bool {
	return slices.ContainsFunc(s.hashes, func(sum [sha256.Size]byte) bool { return staticName(sum) == name })
}
