package folder

import (
	"context"
	"encoding/json"
	"errors"

	"weir/configs"
	"weir/internal/server/state"
	"weir/router/registry"
	"weir/telemetry/audit"
)

// Open opens the models folder. Changes of aliases go to the store's audit log, where there is a store.
func Open(c configs.Config) (*registry.Registry, error) {
	dir, err := state.ModelsDir(c.Registry)
	if err != nil {
		return nil, err
	}
	r, err := registry.Open(dir)
	if err != nil {
		return nil, err
	}
	r.Actor = state.CommandLine()
	r.Audit = func(change registry.Change) error { return auditChange(c.Store, change) }
	return r, nil
}

func auditChange(c configs.Store, change registry.Change) error {
	exists, err := state.Exists(c)
	if err != nil || !exists {
		return err // without a store the folder's own history has the change
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	s, err := state.Open(ctx, c, state.Options{})
	if err != nil {
		return err
	}
	details, err := json.Marshal(change)
	if err == nil {
		_, err = s.Audit.Append(ctx, audit.Change{
			Time: change.Time, Actor: change.Actor, Action: change.Action, Object: change.Object, Details: string(details),
		})
	}
	return errors.Join(err, state.Close(s))
}

// ShortDigest is what people compare, and what a reference may have in place of the whole.
func ShortDigest(d string) string { return d[:min(len(d), len("sha256:")+12)] }
