package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"weir/configs"
	"weir/internal/server/folder"
	"weir/router/deployment"
	"weir/router/registry"
	"weir/router/registry/hub"
)

// Fetch implements deployment.Host: a version is one that the configuration has, the model in the binary, one of the models
// folder, or what is pulled into it.
func (d *deployments) Fetch(ctx context.Context, model string, r deployment.Revision, tell func(s deployment.State, done, total int64)) (string, error) {
	if record, ok := d.s.languages.configuredVersion(model, r.Version); ok {
		return "", d.derive(record, &r)
	}
	if err := d.checkResources(model, r.Resources); err != nil {
		return "", err
	}
	switch {
	case d.s.fleets.has(model, r.Version):
		return "", nil
	case d.isRouted(model):
		return "", fmt.Errorf("this server has no replicas of %s@%s; list them under models with the version %q", model, r.Version, r.Version)
	case d.isClassic(model):
		_, err := d.s.predictors.version(model, r.Version)
		return "", err
	case r.Version == configs.BuiltinPath:
		return "", d.plan(configs.Deployed(model, configs.BuiltinPath, r.Label, r.Resources), "")
	}
	held, done, err := d.bring(ctx, model, &r, tell)
	if err != nil {
		return "", err
	}
	defer done()
	record := configs.Deployed(model, "", r.Label, r.Resources)
	folder.TakeVersion(&record, &held.Version)
	return string(held.Digest), d.plan(record, string(held.Digest))
}

// derive makes a version of the file of one that the configuration has, with the resources of the deployment. Without any it
// is the configuration's.
func (d *deployments) derive(record configs.ServedModel, r *deployment.Revision) error {
	switch {
	case len(r.Resources) == 0 && r.Label == r.Version:
		return nil
	case r.Label == r.Version: // kept by a weir that gave it no label of its own
		return fmt.Errorf("the label %q is that of the configuration's version, which has resources of its own; DELETE the deployment and make it again", r.Label)
	}
	return d.plan(record.Derived(r.Label, r.Resources), "")
}

// checkResources refuses resources of a model that this server does not compute with settings of its own.
func (d *deployments) checkResources(model string, resources map[string]string) error {
	if len(resources) == 0 {
		return nil
	}
	keys := strings.Join(slices.Sorted(maps.Keys(resources)), ", ")
	switch {
	case d.isRouted(model) && d.s.fleets.hasVersions(model):
		return fmt.Errorf("resources (%s) of %q cannot be applied: other servers compute it, and this one routes; leave resources out, and deploy them to its replicas", keys, model)
	case d.isClassic(model):
		return fmt.Errorf("resources (%s) of %q cannot be applied: it is a classical model, which has none; leave resources out", keys, model)
	}
	return nil
}

// plan remembers a version, if it can be served.
func (d *deployments) plan(record configs.ServedModel, digest string) error {
	if err := d.s.languages.canServe(record); err != nil {
		return err
	}
	d.versions.Make(record, digest)
	return nil
}

// bring finds the files of a version, or pulls them, and compares them with their digests. They stay until done is
// called, and as long as a version is made of them.
func (d *deployments) bring(ctx context.Context, model string, r *deployment.Revision, tell func(s deployment.State, done, total int64)) (held *registry.Held, done func(), err error) {
	reg, err := folder.Open(d.s.config)
	if err != nil {
		return nil, nil, err
	}
	reg.Actor = "deployment of " + model
	name, err := d.find(ctx, reg, model, r, tell)
	if err != nil {
		return nil, nil, err
	}
	v, err := reg.Resolve(name)
	if err != nil {
		return nil, nil, err
	}
	ref, err := registry.ParseRef(name)
	if err != nil {
		return nil, nil, err
	}
	if err := folder.Servable(d.s.config, &v, ref); err != nil {
		return nil, nil, err
	}
	if !v.Language() {
		return nil, nil, fmt.Errorf("%s is a classical model (%s); list it under classic in the configuration, and deploy its version by its label", name, v.Facts.Format)
	}
	if held, done := d.versions.Held(string(v.Digest)); held != nil {
		return held, done, nil
	}
	loaded, err := reg.Load(ctx, name, func(done, total int64) { tell(deployment.Verifying, done, total) })
	if err != nil {
		return nil, nil, err
	}
	held, done = d.versions.Hold(loaded)
	return held, done, nil
}

// find is the name of a version in the models folder, into which it is pulled where it is not there.
func (d *deployments) find(ctx context.Context, reg *registry.Registry, model string, r *deployment.Revision, tell func(s deployment.State, done, total int64)) (string, error) {
	name, err := d.local(reg, model, r)
	if name != "" || err != nil {
		return name, err
	}
	return d.pull(ctx, reg, r.Version, r, tell)
}

// local is the name of a version whose files are in the models folder: one with the digest that the deployment has, where another
// server has found it already. Empty: they are to be pulled.
func (d *deployments) local(reg *registry.Registry, model string, r *deployment.Revision) (string, error) {
	if r.Digest != "" {
		if v, err := reg.Resolve(r.Digest); err == nil {
			return string(v.Digest), nil
		}
	}
	text := r.Version
	if deployment.IsPlain(text) { // a tag of the model's own name
		text = model + ":" + text
	}
	ref, named := folder.AsReference(text)
	if !named {
		return "", fmt.Errorf("the version %q is no name in the models folder or on a hub; give chat:v2, chat@sha256:DIGEST, hf.co/ORG/REPO:Q4_K_M or HOST/NAME:TAG, "+
			"or bring the file in first: weir models import FILE NAME:TAG", r.Version)
	}
	v, err := reg.Resolve(ref.String())
	if err == nil && (r.Digest == "" || string(v.Digest) == r.Digest) {
		return string(v.Digest), nil
	}
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return "", err
	}
	if deployment.IsPlain(r.Version) || ref.Name == "" {
		if err == nil {
			return "", fmt.Errorf("digest refused: %s is %s here, and the deployment's is %s; deploy HOST/NAME:TAG, or bring the same files in", ref, v.Digest, r.Digest)
		}
		return "", fmt.Errorf("%w: %s is not in the models folder %s; deploy HOST/NAME:TAG or a name on a hub, or weir models import FILE %s", deployment.ErrNoVersion, ref, reg.Dir(), ref)
	}
	return "", nil
}

// pull brings a version in. What is not of the deployment's digest is refused.
func (d *deployments) pull(ctx context.Context, reg *registry.Registry, text string, r *deployment.Revision, tell func(s deployment.State, done, total int64)) (string, error) {
	select {
	case d.pulls <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-d.pulls }()
	source, err := hub.New(os.Getenv).Parse(text)
	if err != nil {
		return "", err
	}
	as := source.Name
	if r.Digest != "" && source.Kind == hub.OCI {
		text = pinnedText(text, r.Digest) // the tag may have moved since another server has found it
	}
	tell(deployment.Pulling, 0, 0)
	p := &folder.Puller{Config: d.s.config, Registry: reg, Errs: d.s.errs, Progress: func(done, total int64) { tell(deployment.Pulling, done, total) }}
	v, err := p.Pull(ctx, text, as)
	if v.Digest == "" {
		return "", errors.Join(err, context.Cause(ctx))
	}
	if r.Digest != "" && string(v.Digest) != r.Digest {
		return "", fmt.Errorf("digest refused: %s is %s now, and the deployment's is %s, as another server has found first; deploy the version again to take what is there now", text, v.Digest, r.Digest)
	}
	return string(v.Digest), nil
}

// pinnedText is HOST/NAME@DIGEST of HOST/NAME:TAG.
func pinnedText(text, digest string) string {
	ref, err := registry.ParseRef(text)
	if err != nil || ref.Name == "" {
		return text
	}
	return ref.Name + "@" + digest
}
