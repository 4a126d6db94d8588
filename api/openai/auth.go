package openai

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"weir/api"
)

// minKeyBytes is the least length of a key, so that keys cannot be guessed.
const minKeyBytes = 8

// keyring holds hashes of the accepted keys. Comparing hashes takes the same
// time whatever the key, and a dump of memory shows no key.
type keyring struct {
	hashes [][sha256.Size]byte
}

func newKeyring(keys []string) *keyring {
	r := &keyring{}
	for _, k := range keys {
		r.hashes = append(r.hashes, sha256.Sum256([]byte(k)))
	}
	return r
}

// tenant checks an Authorization header and returns the tenant of its key. On a
// server without keys every request has the same tenant, "".
func (r *keyring) tenant(authorization []byte) (name string, ok bool) {
	if len(r.hashes) == 0 {
		return "", true
	}
	scheme, key, _ := strings.Cut(string(authorization), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(key)))
	found := 0
	for i := range r.hashes {
		found |= subtle.ConstantTimeCompare(r.hashes[i][:], sum[:])
	}
	if found != 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return "key-" + hex.EncodeToString(sum[:8]), true
}

func invalidKey() *api.Error {
	return &api.Error{Status: http.StatusUnauthorized, Type: api.TypeInvalidRequest, Code: "invalid_api_key",
		Message: "a valid API key is needed; send the header Authorization: Bearer KEY"}
}
