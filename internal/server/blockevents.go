package server

import (
	"context"
	"fmt"
	"slices"

	"weir/api/admin"
	"weir/router"
)

// blockEvents are the changes of the prefix cache of a model that is computed here, for the
// routers in front of this server.
func (e *engines) blockEvents(ctx context.Context, name string, epoch, after uint64) (*router.BlockEvents, error) {
	r := e.languages.named(name)
	if r == nil || r.Engine == nil {
		return nil, fmt.Errorf("%w: %.100q", admin.ErrNoModel, name)
	}
	found, err := r.Engine.BlockEvents(ctx, epoch, after, router.MostBlockEvents)
	if err != nil {
		return nil, err
	}
	info := r.Engine.Info()
	events := &router.BlockEvents{
		Model: r.entry.ID, Version: r.entry.Version, Digest: info.Digest, KVType: info.KVLayout, BlockTokens: info.BlockTokens,
		Epoch: found.Epoch, First: found.First, Events: make([]router.BlockEvent, len(found.Events)),
	}
	for i, event := range found.Events {
		events.Events[i].Event = event
	}
	return events, nil
}

// named is the model in memory that answers for a name or an alias, or for no name where
// there is but one; nil: it is not there.
func (l *languages) named(name string) *resident {
	table := *l.table.Load()
	for id, n := range table {
		if id == name || name == "" && len(table) == 1 || slices.ContainsFunc(n.planned, func(p *planned) bool {
			return slices.Contains(p.record.Aliases, name)
		}) {
			return l.answering(id)
		}
	}
	return nil
}
