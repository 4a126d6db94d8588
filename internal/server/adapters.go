package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api"
	"weir/api/admin"
	"weir/api/openai/models"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/internal/server/local"
	"weir/internal/server/state"
)

// adapters are the LoRA adapters of the language models of a server: those of the configuration, and what operators have loaded and unloaded since.
// They are read into each version of their model that comes into memory.
type adapters struct {
	l *languages

	mu      sync.Mutex
	loaded  []*loraAdapter       // by operators, in the order of loading
	removed map[loraAdapter]bool // of the configuration, which operators have unloaded or replaced; one that a reload changes is another
	created map[string]int64     // when those that are listed were first, as Unix seconds
}

// loraAdapter is an adapter and its model.
type loraAdapter struct {
	configs.LoraModule
	model string // its name
}

func newAdapters(l *languages) *adapters {
	return &adapters{l: l, removed: make(map[loraAdapter]bool), created: make(map[string]int64)}
}

// of are the adapters of a model with this configuration: those of the configuration first, without what operators have unloaded.
func (x *adapters) of(name string, c configs.Config) (list []*loraAdapter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range c.Model.LoraModules() {
		if a := (loraAdapter{m, name}); !x.removed[a] {
			list = append(list, &a)
		}
	}
	for _, a := range x.loaded {
		if a.model == name && !slices.ContainsFunc(list, a.isNamesake) {
			list = append(list, a)
		}
	}
	return list
}

func (a *loraAdapter) isNamesake(o *loraAdapter) bool { return a.Name == o.Name }

// change puts an adapter in the place of all of its name, or nothing.
func (x *adapters) change(name string, to ...*loraAdapter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded = append(slices.DeleteFunc(x.loaded, func(a *loraAdapter) bool { return a.Name == name }), to...)
	for model, n := range *x.l.table.Load() {
		for _, p := range n.planned {
			for _, m := range p.config.Model.LoraModules() {
				if m.Name == name {
					x.removed[loraAdapter{m, model}] = true
				}
			}
		}
	}
}

// read reads the adapters of a version that comes into memory. One of the configuration that does not fit is an error; one that an
// operator has loaded into another version is told and left out.
func (x *adapters) read(r *resident, c configs.Config) error {
	for _, a := range x.of(r.Name, c) {
		err := a.into(r)
		x.mu.Lock()
		dynamic := slices.Contains(x.loaded, a)
		x.mu.Unlock()
		if err != nil && !dynamic {
			return fmt.Errorf("adapter %s: %w", a.Name, err)
		}
		if err != nil {
			x.l.s.log.Error("an adapter does not fit this version of its model", zap.String("adapter", a.Name), zap.String("model", r.Name), zap.Error(err))
		}
	}
	return nil
}

// into reads an adapter into a version of its model.
func (a *loraAdapter) into(r *resident) error {
	if r.Engine == nil {
		return fmt.Errorf("%w: %s is computed by no engine that takes adapters", llm.ErrAdapter, r.Name)
	}
	f, err := local.OpenAdapter(a.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = r.Engine.Adapters().Load(f, llm.AdapterOptions{Name: a.Name, Scale: a.Scale})
	if err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	return nil
}

// entries are the adapters of the models of a table, as requests know them.
func (x *adapters) entries(table map[string]*served) (list []*models.Model) {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := make(map[string]bool)
	for _, name := range names {
		for _, p := range table[name].planned {
			for _, a := range x.of(name, p.config) {
				if seen[a.Name] {
					continue
				}
				seen[a.Name] = true
				list = append(list, &models.Model{
					ID: a.Name, Created: x.createdAt(a.Name), Price: x.price(a.Name, name), Versions: &adapterVersions{x.l, a},
					Version: x.l.current(name).Digest, Adapter: &models.Adapter{Parent: name, Root: a.Path, Scale: cmp.Or(a.Scale, 1)},
				})
			}
		}
	}
	return list
}

// clash refuses a configuration in which a model, or an adapter of another one, has the name of an adapter that an operator has loaded: a name stands
// for one of them.
func (x *adapters) clash(c configs.Config) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.loaded {
		for _, r := range append(c.ServedModels(), c.RoutedModels()...) {
			own := slices.ContainsFunc(c.ForModel(r).Model.LoraModules(), func(m configs.LoraModule) bool { return m.Name == a.Name })
			if r.Name == a.Name || slices.Contains(r.Aliases, a.Name) || own && r.Name != a.model {
				return fmt.Errorf("models: %q stands for %s, and for an adapter that was loaded into %s while the server ran; unload the adapter, or give one of them another name",
					a.Name, r.Name, a.model)
			}
		}
	}
	return nil
}

// list is entries, and the names of adapters that were listed before and are no more.
func (x *adapters) list(table map[string]*served) (list []*models.Model, gone []string) {
	list = x.entries(table)
	x.mu.Lock()
	defer x.mu.Unlock()
	for name := range x.created {
		if !slices.ContainsFunc(list, func(m *models.Model) bool { return m.ID == name }) {
			gone = append(gone, name)
			delete(x.created, name)
		}
	}
	return list, gone
}

// createdAt is when an adapter was first listed, as Unix seconds.
func (x *adapters) createdAt(name string) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.created[name] == 0 {
		x.created[name] = time.Now().Unix()
	}
	return x.created[name]
}

// LoadAdapter implements models.AdapterTable.
func (x *adapters) LoadAdapter(ctx context.Context, by string, load models.AdapterLoad) error {
	l := x.l
	l.changing.Lock()
	defer l.changing.Unlock()
	a, fault := x.wanted(load)
	if fault != nil {
		return fault
	}
	f, err := local.OpenAdapter(a.Path) // before a model is brought into memory for it
	if err != nil {
		return adapterFault(a, err)
	}
	_ = f.Close()
	about := state.Details{"adapter": a.Name, "path": a.Path}
	if err := l.s.audit.Add(ctx, by, state.ActionModelLoad, a.model, about); err != nil {
		return err
	}
	lease, err := l.versions.Acquire(a.model, "")
	if err == nil {
		defer lease.Release()
		if lease.Content == nil {
			err = lease.Load(ctx)
		}
	}
	for _, r := range l.residents() {
		if err == nil && r.Name == a.model {
			err = a.into(r)
		}
	}
	if err != nil {
		l.s.audit.Failed(ctx, by, state.ActionModelLoad, a.model, about, err)
		return adapterFault(a, err)
	}
	x.change(a.Name, a)
	l.s.log.Info("an adapter was loaded", zap.String("adapter", a.Name), zap.String("model", a.model), zap.String("path", a.Path), zap.String("by", by))
	return l.publish()
}

// wanted checks what a caller asks for.
func (x *adapters) wanted(load models.AdapterLoad) (*loraAdapter, *api.Error) {
	a := &loraAdapter{configs.LoraModule{Name: load.Name, Path: load.Path, Scale: load.Scale}, load.Parent}
	if !models.IsAdapterName(a.Name) {
		return nil, api.RefuseParam("invalid_value", "lora_name", "%.80q must be a name without @, :, commas and control characters", a.Name)
	}
	table := *x.l.table.Load()
	if a.model == "" {
		if len(table) != 1 {
			return nil, api.RefuseParam("invalid_value", "base_model_name", "there are %d models here; say which one the adapter is for", len(table))
		}
		for name := range table {
			a.model = name
		}
	}
	if table[a.model] == nil {
		return nil, notFound(fmt.Sprintf("the model %.80q is none that this server computes", a.model))
	}
	for _, e := range x.entries(table) {
		if e.ID != a.Name {
			continue
		}
		if e.Adapter.Parent == a.model && load.InPlace {
			return a, nil
		}
		return nil, api.RefuseParam("invalid_value", "lora_name", "The lora adapter '%.80s' has already been loaded, for the model %s; unload it first, or load it with load_inplace", a.Name, e.Adapter.Parent)
	}
	if slices.Contains(x.l.s.edge.Names(), a.Name) {
		return nil, api.RefuseParam("invalid_value", "lora_name", "%.80q is the name of a model; give the adapter another one", a.Name)
	}
	return a, nil
}

// UnloadAdapter implements models.AdapterTable.
func (x *adapters) UnloadAdapter(ctx context.Context, by, name string) error {
	l := x.l
	l.changing.Lock()
	defer l.changing.Unlock()
	i := slices.IndexFunc(x.entries(*l.table.Load()), func(e *models.Model) bool { return e.ID == name })
	if i < 0 {
		return notFound(fmt.Sprintf("The lora adapter '%.80s' cannot be found.", name))
	}
	model := x.entries(*l.table.Load())[i].Adapter.Parent
	if err := l.s.audit.Add(ctx, by, state.ActionModelUnload, model, state.Details{"adapter": name}); err != nil {
		return err
	}
	x.change(name)
	err := l.publish() // first, so that requests to come find no entry instead of one without an adapter
	for _, r := range l.residents() {
		if r.Engine != nil && r.Name == model {
			r.Engine.Adapters().Unload(name)
		}
	}
	l.s.log.Info("an adapter was unloaded", zap.String("adapter", name), zap.String("model", model), zap.String("by", by))
	return err
}

// do makes a change of an operator's that is about an adapter; false: it is about a model.
func (x *adapters) do(ctx context.Context, by string, c admin.ModelChange) (done bool, err error) {
	switch {
	case c.Action == admin.ModelLoad && c.Path != "":
		err = x.LoadAdapter(ctx, by, models.AdapterLoad{Name: c.Name, Path: c.Path, Parent: c.Model, Scale: c.Scale, InPlace: true})
	case c.Action == admin.ModelUnload && slices.ContainsFunc(x.entries(*x.l.table.Load()), func(e *models.Model) bool { return e.ID == c.Name }):
		err = x.UnloadAdapter(ctx, by, c.Name)
	default:
		return false, nil
	}
	return true, err
}

func notFound(message string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Param: "lora_name", Message: message}
}

// adapterFault is why an adapter is not loaded, for clients.
func adapterFault(a *loraAdapter, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e := notFound(fmt.Sprintf("the adapter %.80s: there is no file %.200s", a.Name, a.Path))
		e.Param = "lora_path"
		return e
	case errors.Is(err, inference.ErrUnavailable), errors.Is(err, context.Canceled):
		return err
	}
	return api.RefuseParam("invalid_value", "lora_path", "the adapter %.80s: %s", a.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
}
