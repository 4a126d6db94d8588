package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"weir/api/moderation"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/cpu"
	"weir/internal/server/local"
	"weir/router/versions"
)

// planned is a record of the configuration whose file was looked at.
type planned struct {
	record configs.ServedModel
	config configs.Config // of this model alone
	info   llm.Info       // with the budget that it will have
	label  string
	policy *moderation.Policy // nil: it has none
}

// planModels looks at the files of a configuration's models and gives each its memory.
// What cannot run is refused, and no weights are read.
func planModels(c configs.Config, budget int64) ([]*planned, error) {
	records := c.ServedModels()
	list := make([]*planned, 0, len(records))
	var errs []error
	for _, r := range records {
		p := &planned{record: r, config: c.ForModel(r)}
		if err := p.size(budget, len(records)); err != nil {
			errs = append(errs, err)
			continue
		}
		var err error
		if p.policy, err = c.SafetyOf(r, digestKey()); err != nil {
			errs = append(errs, err)
			continue
		}
		p.label = cmp.Or(r.Version, p.info.Digest[:labelBytes])
		for n := 2; slices.ContainsFunc(list, func(o *planned) bool { return o.record.Name == r.Name && o.label == p.label }); n++ {
			p.label = fmt.Sprintf("%s-%d", p.info.Digest[:labelBytes], n)
		}
		list = append(list, p)
	}
	for _, p := range list {
		errs = append(errs, checkClassifiers(p, list))
	}
	return list, errors.Join(errs...)
}

// size reads the header of a model's file. Where there are several models, each without a size of
// its own gets an equal part of half of the memory that its weights leave for its KV cache.
func (p *planned) size(budget int64, count int) error {
	f, err := local.OpenRunnable(p.config)
	if err != nil {
		return err
	}
	defer f.Close()
	for range 2 {
		if p.info, err = local.Describe(f, p.config); err != nil {
			return local.LoadError(p.config.Model, err)
		}
		sized := p.config.Engine.KVMemoryBytes > 0 || p.info.Embeds || local.OnLlamaCpp(p.config)
		if sized || count == 1 && p.record.Load == configs.LoadAtStartup {
			return nil
		}
		cache := p.info.CacheBytes()
		p.config.Engine.KVMemoryBytes = cache
		if budget > 0 {
			p.config.Engine.KVMemoryBytes = max(min(cache, (budget-p.info.MemoryBytes()+cache)/2/int64(count)), 1)
		}
	}
	return nil
}

func (p *planned) bytes() int64 {
	return p.info.MemoryBytes()
}

// spec is the version as the manager of versions knows it.
func (p *planned) spec(l *languages) versions.Spec {
	r := p.record
	identity := r
	identity.Load, identity.IdleUnload, identity.Pinned, identity.Aliases = "", 0, false, nil
	identity.Fallback, identity.Policy, identity.Safety, identity.OwnSafety = nil, "", "", ""
	return versions.Spec{
		Name: r.Name, Label: p.label, Digest: p.info.Digest, Key: fmt.Sprintf("%s %+v", p.info.Digest, identity), Bytes: p.bytes(),
		When:       map[string]versions.When{configs.LoadLazily: versions.Lazy, configs.LoadNever: versions.Never}[r.Load],
		IdleUnload: r.IdleUnload, Pinned: r.Pinned,
		Open: func(ctx context.Context) (versions.Content, error) {
			m, err := l.open(ctx, p)
			if err != nil {
				return nil, err // a nil *resident would be a content
			}
			return m, nil
		},
	}
}

// memoryBudget is what language models may take: what the configuration says, or what is
// free now. 0 is no limit, where the system does not tell.
func memoryBudget(c configs.Config) int64 {
	switch {
	case c.Model.MemoryBytes > 0:
		return c.Model.MemoryBytes
	case cpu.TotalMemoryBytes() == 0:
		return 0
	}
	return cpu.AvailableMemoryBytes()
}
