package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"weir/api/openai/models"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// adapterVersions are the versions of an adapter's model, with the adapter.
type adapterVersions struct {
	l *languages
	*loraAdapter
}

// Outline implements models.Versions.
func (v *adapterVersions) Outline(string) models.Outline { return v.l.Outline(v.model) }

// Acquire implements models.Versions. Rollouts choose by the model, among the versions that have the adapter.
func (v *adapterVersions) Acquire(a *models.VersionRequest) (models.VersionLease, error) {
	own := *a
	own.Model = v.model
	held, err := v.l.acquire(&own, v.isIn)
	if err != nil {
		return held, err
	}
	held.Copy = nil // the candidate of a rollout may not have it
	if price := v.l.adapters.ownPrice(v.Name, v.model); price != (quota.Price{}) {
		held.Price = price
	}
	if held.Model != nil {
		if held.Model, err = v.adapted(held.Model); err != nil {
			held.Release()
			return models.VersionLease{}, err
		}
		return held, nil
	}
	load := held.Load
	held.Load = func(ctx context.Context) (*models.Model, error) {
		m, err := load(ctx)
		if err != nil {
			return nil, err
		}
		return v.adapted(m)
	}
	return held, nil
}

// isIn reports whether a version of the model has the adapter.
func (v *adapterVersions) isIn(label string) bool {
	n := (*v.l.table.Load())[v.model]
	return n != nil && slices.ContainsFunc(n.planned, func(p *planned) bool {
		return p.label == label && slices.ContainsFunc(v.l.adapters.of(v.model, p.config), func(a *loraAdapter) bool { return a.Name == v.Name })
	})
}

// adapted is a version of the model with the adapter as it is loaded now, which answers all of a call, whatever is loaded meanwhile.
func (v *adapterVersions) adapted(m *models.Model) (*models.Model, error) {
	own, info := *m, llm.AdapterInfo{}
	if e, ok := m.Backend.(*llm.Engine); ok {
		held, ok := e.Adapters().Hold(v.Name)
		if !ok {
			return nil, fmt.Errorf("%w: the adapter %q is not loaded into the version of %q that answers", models.ErrNoVersion, v.Name, v.model)
		}
		own.Backend, info = adaptedBackend{m.Backend, e, held}, held.Info
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %v", m.Fingerprint, info.Digest, info.Scale))
	own.Fingerprint = "fp_" + hex.EncodeToString(sum[:5])
	own.Version = m.Version + "+" + hex.EncodeToString(sum[:6])
	return &own, nil
}

// adaptedBackend has the engine add an adapter.
type adaptedBackend struct {
	router.Backend
	engine *llm.Engine
	held   llm.HeldAdapter
}

// SubmitAll implements router.Backend.
func (b adaptedBackend) SubmitAll(rs []*inference.Request) ([]*inference.Stream, error) {
	return b.engine.SubmitHeld(rs, b.held)
}

// price is what an adapter's tokens cost: its own price, or that of its model.
func (x *adapters) price(name, model string) quota.Price {
	return cmp.Or(x.ownPrice(name, model), x.l.s.prices.of(model))
}

// ownPrice is the price that an adapter has itself; none: its tokens cost what those of its model's version do.
func (x *adapters) ownPrice(name, model string) quota.Price {
	return cmp.Or(x.l.s.prices.of(name), x.l.s.prices.of(model+":"+name))
}
