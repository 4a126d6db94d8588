package state_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"weir/configs"
	"weir/internal/server/state"
)

// An open store has one field for each subject that its tables hold.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c := configs.Store{URL: state.SqliteScheme + filepath.Join(dir, "weir.db")}
	s, err := state.Open(ctx, c, state.Options{Failed: func(err error) { fmt.Println("in the background:", err) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := state.AddEntry(ctx, s.Audit, "command line", state.ActionTenantCreate, "acme", state.Details{"weight": 2})
	fmt.Println(e.Sequence, e.Action, e.Object, e.Details, err)
	fmt.Println(state.Verify(ctx, s), state.Close(s))
	// Output:
	// 1 tenant.create acme {"weight":2} <nil>
	// <nil> <nil>
}
