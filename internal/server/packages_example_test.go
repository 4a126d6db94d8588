package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/deployed"
	"weir/internal/server/folder"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/router/registry"
)

// An open store has one field for each subject that its tables hold.
func Example_state() {
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

// A key is made for a tenant, and takes its end; the audit log says who did it.
func Example_keychain() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c := configs.Store{URL: state.SqliteScheme + filepath.Join(dir, "weir.db")}
	s, err := state.Open(ctx, c, state.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer state.Close(s) // the folder goes with it
	k := keychain.Keychain{Config: c, Keys: s.Keys, Audit: s.Audit, Tenants: func(context.Context) (*tenant.Directory, error) { return tenant.NewDirectory(nil) }}
	_, key, first, err := k.Create(ctx, "ann", keychain.Request{Tenant: "acme", Label: "laptop", Scope: "inference", Expires: "90d"})
	fmt.Println(key.Tenant, key.Label, key.Scope, key.Expires.Sub(key.Created), first, err)
	key, err = k.Revoke(ctx, "ann", key.ID)
	fmt.Println(keychain.State(&key, key.Revoked), err)
	found, err := k.Find(ctx, key.ID)
	fmt.Println(found.Revoked.Equal(key.Revoked), err)
	for e := range s.Audit.Entries(ctx, 0) {
		fmt.Println(e.Actor, e.Action, e.Object == key.ID)
	}
	// Output:
	// acme laptop inference 2160h0m0s true <nil>
	// revoked <nil>
	// true <nil>
	// ann key.create true
	// ann key.revoke true
}

// A name of the configuration is a path, or a version in the models folder, whose files and defaults its record then has.
func Example_folder() {
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

// A deployment brings a version, which its model has as long as the deployment lists it. Until it is withdrawn no reload moves the name.
func Example_deployed() {
	versions := deployed.New()
	versions.Make(configs.Deployed("chat", configs.BuiltinPath, "v2", map[string]string{"max_num_seqs": "8"}), "")
	list := []deployment.Revision{{Version: "builtin", Label: "v2"}, {Version: "v1", Label: "v1"}} // v1 is the configuration's
	records, changed := versions.Offer("chat", list)
	fmt.Println(len(records), records[0].Version, changed, versions.Decides("chat"))
	versions.Set("chat", list)
	_, changed = versions.Offer("chat", list)
	fmt.Println("again:", changed)

	versions.Withdraw("chat")
	versions.Set("chat", nil)
	_, has := versions.Record("chat", "v2")
	fmt.Println(versions.Decides("chat"), has)
	// Output:
	// 1 v2 true true
	// again: false
	// false false
}
