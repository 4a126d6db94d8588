package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A replica's key may lie in a file of its own, such as a mounted secret, which is no place
// for anything else.
func TestReplicaKeyFile(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"key": " sk-of-the-replica\n", "empty": "\n", "long": strings.Repeat("x", maxKeyBytes+1)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ fields, wrong string }{
		{"api_key_file: key", ""},
		{"api_key_file: empty", "must hold the key alone"},
		{"api_key_file: long", "must hold the key alone"},
		{"api_key_file: none", "no such file"},
		{"api_key_file: key, api_key: sk-another-key", "set one of both"},
	} {
		fields := strings.Replace(c.fields, "api_key_file: ", "api_key_file: "+folder+"/", 1)
		s := New()
		err := s.Decode("a.yml", []byte("models: [{name: m, replicas: [{url: \"http://10.0.0.7/v1\", "+fields+"}]}]\n"))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "sk-") {
				t.Errorf("%s: %v", c.fields, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.config.Models[0].Replicas[0].APIKey; got != "sk-of-the-replica" {
			t.Errorf("the key is %q", string(got))
		}
	}
}
