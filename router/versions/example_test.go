package versions_test

import (
	"context"
	"fmt"

	"weir/router/versions"
)

// weights are a version in memory.
type weights string

func (weights) Close(context.Context) error { return nil }

// A request holds the version that answered when it began, also while the name moves to another one.
func Example() {
	ctx, m := context.Background(), versions.New(versions.Options{KeepLast: true})
	spec := func(label string) versions.Spec {
		return versions.Spec{Name: "chat", Label: label, Key: label, Open: func(context.Context) (versions.Content, error) { return weights(label), nil }}
	}
	commit, _, err := m.Prepare(ctx, []versions.Spec{spec("v1"), spec("v2")})
	if err != nil {
		fmt.Println(err)
		return
	}
	commit()
	defer m.Close()

	before, err := m.Acquire("chat", "")
	fmt.Println(before.Content, err)
	if _, err := m.Move(ctx, "chat", "v2"); err != nil {
		fmt.Println(err)
	}
	after, err := m.Acquire("chat", "")
	fmt.Println(before.Content, after.Content, err)
	before.Release()
	after.Release()
	now, last, err := m.Rollback(ctx, "chat")
	fmt.Println(now, "answers again in place of", last, err)
	// Output:
	// v1 <nil>
	// v1 v2 <nil>
	// v1 answers again in place of v2 <nil>
}
