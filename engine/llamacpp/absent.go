//go:build !llamacpp

package llamacpp

import "errors"

// Linked says whether this build has llama.cpp.
const Linked = false

// Open fails: this build has no llama.cpp.
func Open(string, Options) (*Engine, error) {
	return nil, errors.New("this weir was built without llama.cpp: make llamacpp builds the library, and the build tag llamacpp links it")
}
