package folder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"weir/configs"
	"weir/internal/server/folder"
	"weir/router/registry"
)

// A name of the configuration is a path, or a version in the models folder, whose files and defaults its record then has.
func Example() {
	dir, err := os.MkdirTemp("", "models")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c := configs.Default()
	c.Registry.Dir = filepath.Join(dir, "models")
	models, err := folder.Open(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	weights := filepath.Join(dir, "chat.gguf")
	if err := os.WriteFile(weights, []byte("weights"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	temperature := 0.2
	v, err := models.Import(context.Background(), registry.Import{
		Name: "chat:v1", Files: []registry.Source{{Role: registry.Weights, Path: weights}},
		Record: registry.Record{Sampling: &registry.Sampling{Temperature: &temperature}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, ok := folder.AsReference("chat:v1")
	fmt.Println(ref, folder.BaseName(ref), ok)
	m := configs.NewServedModel("chat", "chat:v1")
	folder.TakeVersion(&m, &v)
	fmt.Println(filepath.Base(m.Path), m.Defaults, folder.Servable(c, &v, ref))
	// Output:
	// chat:v1 chat true
	// chat.gguf [{temperature 0.2}] <nil>
}
