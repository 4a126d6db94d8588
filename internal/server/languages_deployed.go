package server

import (
	"context"
	"maps"
	"slices"

	"weir/configs"
	"weir/router/versions"
)

// with is a configuration's list, and behind it what deployments have brought. The caller holds changing.
func (l *languages) with(configured []*planned) []*planned {
	all := slices.Clone(configured)
	for _, name := range slices.Sorted(maps.Keys(l.deployed)) {
		all = append(all, l.deployed[name]...)
	}
	return all
}

// stock gives a name the versions of a deployment, in place of those that it had of one. The first one answers where the
// configuration has none of this name.
func (l *languages) stock(ctx context.Context, name string, records []configs.ServedModel) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	before := l.deployed[name]
	var list []*planned
	for _, r := range records {
		p, err := l.planDeployed(r)
		if err != nil {
			return err
		}
		list = append(list, p)
	}
	l.deployed[name] = list
	if len(list) == 0 {
		delete(l.deployed, name)
	}
	l.retained = l.retains(l.configured)
	all := l.with(slices.Concat(l.configured, l.retained))
	ready, _, err := l.versions.Prepare(ctx, l.specs(all))
	if err != nil {
		l.deployed[name] = before
		return err
	}
	return l.commit(all, ready)
}

// retains are the versions that answer for deployments and that a new configuration has no more: they go on, as nothing else was asked for. The
// caller holds changing.
func (l *languages) retains(next []*planned) (list []*planned) {
	for _, old := range slices.Concat(l.configured, l.retained) {
		name := old.record.Name
		is := func(p *planned) bool { return p.record.Name == name && p.label == old.label }
		st, _, _ := l.versions.Answer(name)
		if st.Label != old.label || !l.s.deployments.decides(name) || slices.ContainsFunc(next, is) || slices.ContainsFunc(l.deployed[name], is) || slices.ContainsFunc(list, is) {
			continue
		}
		kept := *old
		kept.record.Load = configs.LoadNever // the configuration's choice is one that it has
		list = append(list, &kept)
	}
	return list
}

// isRetained reports whether a version goes on that the configuration has no more.
func (l *languages) isRetained(name, label string) bool {
	l.changing.Lock()
	defer l.changing.Unlock()
	return slices.ContainsFunc(l.retained, func(p *planned) bool { return p.record.Name == name && p.label == label })
}

// planDeployed looks at the file of a record, unless that was done. The caller holds changing.
func (l *languages) planDeployed(r configs.ServedModel) (*planned, error) {
	for _, p := range l.deployed[r.Name] {
		if p.label == r.Version {
			return p, nil
		}
	}
	models := len(l.configured) + 1
	for _, list := range l.deployed {
		models += len(list)
	}
	p := &planned{record: r, config: l.config.ForModel(r), label: r.Version}
	if err := p.size(l.budget, models); err != nil {
		return nil, err
	}
	var err error
	p.policy, err = l.config.SafetyOf(r, digestKey())
	return p, err
}

// canServe refuses a record of a deployment that cannot stand beside what is served.
func (l *languages) canServe(r configs.ServedModel) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if err := l.config.CheckDeployed(r); err != nil {
		return err
	}
	_, err := l.planDeployed(r)
	return err
}

// computes reports whether this server computes language models.
func (l *languages) computes() bool {
	l.changing.Lock()
	defer l.changing.Unlock()
	return len(l.configured) > 0
}

// configuredVersion is the record of a version that the configuration has of a name under a label.
func (l *languages) configuredVersion(name, label string) (configs.ServedModel, bool) {
	l.changing.Lock()
	defer l.changing.Unlock()
	i := slices.IndexFunc(l.configured, func(p *planned) bool { return p.record.Name == name && p.label == label })
	if i < 0 {
		return configs.ServedModel{}, false
	}
	return l.configured[i].record, true
}

// forecast is the memory that a record takes, as its loading will count it; 0: its file cannot be read.
func (l *languages) forecast(r configs.ServedModel) int64 {
	l.changing.Lock()
	defer l.changing.Unlock()
	p, err := l.planDeployed(r)
	if err != nil {
		return 0
	}
	return p.bytes()
}

// held is the memory that stays taken whatever is loaded: of deployments but that of one model, and of what does not leave for others.
func (l *languages) held(but string) (bytes int64) {
	l.changing.Lock()
	deployed := make(map[string]bool)
	for name, list := range l.deployed {
		for _, p := range list {
			if deployed[name+"@"+p.label] = true; name != but {
				bytes += p.bytes()
			}
		}
	}
	l.changing.Unlock()
	for _, st := range l.versions.List() {
		loaded := st.State == versions.Loaded || st.State == versions.Loading
		if loaded && st.Stays && !deployed[st.Name+"@"+st.Label] && st.Name != but {
			bytes += st.Bytes
		}
	}
	return bytes
}
