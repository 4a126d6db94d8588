package local

import (
	"testing"

	"weir/configs"
)

// Replicas that are given a key agree on block hashes; a process without one
// does not share them.
func TestPrefixSecretIsTheKeyOrChance(t *testing.T) {
	if string(prefixSecret(configs.Engine{PrefixCacheKey: "a key of replicas"})) != "a key of replicas" {
		t.Error("the key is not used")
	}
	if a, b := prefixSecret(configs.Engine{}), prefixSecret(configs.Engine{}); len(a) < 32 || string(a) == string(b) {
		t.Errorf("secrets %x and %x without a key", a, b)
	}
}
