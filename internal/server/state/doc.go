// Package state finds and opens what outlives the process: the store with its secrets, the folders of files, models and weir's
// own state, and the names that changes have in the audit log.
//
//	s, err := state.Open(ctx, settings, state.Options{})
//	…
//	e, err := state.AddEntry(ctx, s.Audit, actor, state.ActionTenantCreate, "acme", details)
//	…
//	err = state.Close(s)
package state
