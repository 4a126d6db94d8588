package servertest

import (
	"os"
	"path/filepath"
	"testing"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/router/fleet"
)

// ChangedFile writes the built-in model with some bytes of its last tensors changed: few give
// another version that answers as well, many one that writes garbage.
func ChangedFile(t *testing.T, name string, changed int) string {
	t.Helper()
	data := defaultmodel.GGUF()
	if changed == 1 {
		data[len(data)-1] ^= 1
	} else {
		for i := range changed {
			data[len(data)-1-i*3] ^= 0x55
		}
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Records are the models of a configuration.
func Records(models ...configs.ServedModel) func(*configs.Config) {
	return func(c *configs.Config) { c.Models = models }
}

// Record is a model of a configuration, as changed; nil: it is not.
func Record(name, path string, change func(*configs.ServedModel)) configs.ServedModel {
	m := configs.NewServedModel(name, path)
	if change != nil {
		change(&m)
	}
	return m
}

// ChatVersion is a version of the model chat that the server at a URL computes.
func ChatVersion(version, url, model string) configs.ServedModel {
	m := configs.NewServedModel("chat", "")
	m.Version, m.Policy = version, "least_load"
	m.Replicas = []fleet.Source{{URL: url + "/v1", Model: model}}
	return m
}
