package registry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"weir/router/registry"
)

// Files become a version, which its digest names for ever; aliases move from one version to another.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "models")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	weights := filepath.Join(dir, "model.gguf")
	models, err := registry.Open(filepath.Join(dir, "models"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"chat:v1", "chat:v2"} {
		if err := os.WriteFile(weights, []byte("the weights of "+name), 0o600); err != nil {
			fmt.Println(err)
			return
		}
		v, err := models.Import(ctx, registry.Import{Name: name, Files: []registry.Source{{Role: registry.Weights, Path: weights}}})
		fmt.Println(v.Aliases, v.Size, "bytes", err)
		if _, err := models.Tag(ctx, name, "chat:prod"); err != nil {
			fmt.Println(err)
		}
	}
	held, err := models.Load(ctx, "chat:prod", nil) // the files are checked, and stay until Release
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release() // the process ends
	fmt.Println(held.Aliases, held.Files[0].Name, held.Digest != "")
	// Output:
	// [chat:v1] 22 bytes <nil>
	// [chat:v2] 22 bytes <nil>
	// [chat:prod chat:v2] model.gguf true
}
