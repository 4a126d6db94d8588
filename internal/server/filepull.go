package server

import (
	"context"
	"fmt"
	"os"
	"strings"

	"weir/configs"
	"weir/internal/server/folder"
	"weir/router/registry"
	"weir/router/registry/hub"
)

// Pull implements ollama.Catalog: the model comes into the models folder, as weir models pull brings it, and answers under its name until the
// process ends. Its file is read with the first request.
func (c *fileCatalog) Pull(ctx context.Context, name, by string, tell func(status string, done, total int64)) error {
	s := c.models.s
	reg, err := folder.Open(s.config)
	if err != nil {
		return err
	}
	reg.Actor = "POST /api/pull by " + by
	source, err := hub.New(os.Getenv).Parse(name)
	if err != nil {
		return err
	}
	tell("pulling manifest", 0, 0)
	p := &folder.Puller{Config: s.config, Registry: reg, Errs: s.errs, Progress: func(done, total int64) { tell("pulling "+name, done, total) }}
	if _, err := p.Pull(ctx, name, source.Name); err != nil {
		return err
	}
	tell("verifying sha256 digest", 0, 0)
	held, err := reg.Load(ctx, source.Name, func(int64, int64) {}) // held until the process ends, which serves it
	if err != nil {
		return err
	}
	if err := c.serve(ctx, strings.TrimSuffix(name, ":latest"), source.Name, &held.Version); err != nil {
		return fmt.Errorf("%w; the files stay in the models folder", err)
	}
	return nil
}

// serve gives a version of the models folder a name of its own among the models.
func (c *fileCatalog) serve(ctx context.Context, name, reference string, v *registry.Version) error {
	ref, err := registry.ParseRef(reference)
	if err != nil {
		return err
	}
	if err := folder.Servable(c.models.s.config, v, ref); err != nil {
		return err
	}
	if !v.Language() {
		return fmt.Errorf("%s is a classical model, which this API does not have", name)
	}
	record := configs.NewServedModel(name, "")
	record.Version, record.Load = v.Digest.Encoded()[:labelBytes], configs.LoadLazily
	folder.TakeVersion(&record, v)
	if err := c.models.canServe(record); err != nil {
		return err
	}
	return c.models.stock(ctx, name, []configs.ServedModel{record})
}
