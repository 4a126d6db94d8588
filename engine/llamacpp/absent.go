//go:build !llamacpp

package llamacpp

import "errors"

// Open fails: this build has no llama.cpp.
func Open(string, Options) (*Engine, error) {
	return nil, errors.New("this weir was built without llama.cpp: make llamacpp builds the library, and the build tag llamacpp links it")
}
