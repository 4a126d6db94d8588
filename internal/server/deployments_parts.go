package server

import (
	"context"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"weir/configs"
	"weir/engine/kernel/isa"
	"weir/internal/server/folder"
	"weir/router/deployment"
)

// Labels that every server has by itself, beside those of --label.
const (
	labelRegion = "region"
	labelArch   = "arch"
	labelISA    = "isa"
	labelMemory = "memory-mib"
)

// labels are what placements select servers by.
func (d *deployments) labels() map[string]string {
	c := d.s.config
	labels := map[string]string{labelArch: runtime.GOARCH, labelISA: isa.Best().String()}
	if c.Server.Region != "" {
		labels[labelRegion] = c.Server.Region
	}
	if budget := d.s.languages.budget; budget > 0 {
		labels[labelMemory] = strconv.FormatInt(budget>>20, 10)
	}
	for _, text := range c.Server.Labels {
		key, value, _ := strings.Cut(text, "=")
		labels[key] = value
	}
	return labels
}

// self is what this server says of itself to the others on the store. No key is in it.
func (d *deployments) self() deployment.Server {
	s := d.s
	self := deployment.Server{
		Instance: s.ports.instance(), URL: s.ports.advertised(s.config.Server.AdvertiseURL), Region: s.config.Server.Region, Labels: d.labels(), Computes: s.languages.computes(),
	}
	if s.ports.admin != nil && !isLoopback(s.ports.admin) || s.ports.admin != nil && isLoopback(s.ports.api) {
		scheme := "http"
		if s.config.Server.TLSAdmin {
			scheme = "https"
		}
		self.AdminURL = (&url.URL{Scheme: scheme, Host: hostNamed(s.ports.admin.Addr().String())}).String()
	}
	self.Models = slices.DeleteFunc(s.fleets.computed(), d.isOnItsWay)
	return self
}

// isOnItsWay reports whether a deployment brings a model here of which nothing answers yet.
func (d *deployments) isOnItsWay(model string) bool {
	o, ok := d.follower.Observed(model)
	if !ok || d.s.languages.answering(model) != nil {
		return false
	}
	switch o.State {
	case deployment.Pending, deployment.Pulling, deployment.Verifying, deployment.Loading, deployment.Failed:
		return true
	case deployment.Serving, deployment.RollingOut, deployment.RolledBack, deployment.Elsewhere, deployment.Unfit:
	}
	return false
}

// computed are the names and aliases of the models that are computed here, as they were published last.
func (f *fleets) computed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, m := range f.locals {
		names = append(append(names, m.ID), m.Aliases...)
	}
	for _, m := range f.s.predictors.local.Index() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Room implements deployment.Host. What deployments have here counts whole, and what the configuration loads as far as it stays in
// memory; versions that leave for others do not.
func (d *deployments) Room(ctx context.Context, model string, r deployment.Revision) (needs, free int64, limited bool) {
	l := d.s.languages
	if l.budget == 0 || d.isRouted(model) || d.isClassic(model) {
		return 0, 0, false
	}
	return d.forecast(ctx, model, &r), l.budget - l.held(model), true
}

// forecast is the memory that a version takes, by the header of its file; 0: the file is not here, or cannot be read, as its loading tells.
func (d *deployments) forecast(ctx context.Context, model string, r *deployment.Revision) int64 {
	l := d.s.languages
	if record, ok := d.versions.Record(model, r.Label); ok {
		return l.forecast(record)
	}
	if record, ok := l.configuredVersion(model, r.Version); ok {
		return l.forecast(record.Derived(r.Label, r.Resources))
	}
	if r.Version == configs.BuiltinPath {
		return l.forecast(configs.Deployed(model, configs.BuiltinPath, r.Label, r.Resources))
	}
	reg, err := folder.Open(d.s.config)
	if err != nil || ctx.Err() != nil {
		return 0
	}
	name, err := d.local(reg, model, r)
	if err != nil || name == "" {
		return 0
	}
	v, err := reg.Resolve(name)
	if err != nil || !v.Language() {
		return 0
	}
	record := configs.Deployed(model, "", r.Label, r.Resources)
	folder.TakeVersion(&record, &v)
	return l.forecast(record)
}
