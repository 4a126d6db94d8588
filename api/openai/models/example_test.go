package models_test

import (
	"fmt"

	"weir/api/openai/models"
	"weir/router"
)

// remote are the servers of a model that is computed elsewhere.
type remote struct{ router.Upstream }

// A table of models is found in by ids and aliases; a name may say which version is meant.
func Example() {
	set, err := models.NewSet([]*models.Model{
		{ID: "llama", Aliases: []string{"gpt-4o"}, Upstream: remote{}},
		{ID: "minilm", Upstream: remote{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"gpt-4o", "minilm", "bert"} {
		if m, ok := set.Find(name); ok {
			fmt.Println(name, "is", m.ID)
			continue
		}
		fmt.Println(name, "is none of", set.IDs())
	}
	fmt.Println(models.SplitVersion("llama@v2"))
	// Output:
	// gpt-4o is llama
	// minilm is minilm
	// bert is none of llama, minilm
	// llama v2
}
