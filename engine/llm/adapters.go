package llm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"weir/engine/gguf"
	"weir/internal/inference"
)

// Adapters are the LoRA adapters of an engine, by name. A request names its own in [inference.Request.Adapter]. All methods may be called from any
// goroutine, while requests run.
type Adapters struct {
	model *model
	opts  *Options

	mu   sync.Mutex
	all  map[string]*adapter
	next uint64
}

func (t *Adapters) init(m *model, opts *Options) {
	t.model, t.opts, t.all = m, opts, make(map[string]*adapter)
}

// Load reads an adapter that fits the model, in place of another one of its name: requests that run go on with that. The file may be closed
// afterwards. Errors about the file wrap ErrAdapter.
func (t *Adapters) Load(f *gguf.File, opts AdapterOptions) (AdapterInfo, error) {
	if err := t.room(opts.Name); err != nil {
		return AdapterInfo{}, err
	}
	a, err := readAdapter(t.model, f, opts, t.opts.MaxAdapterRank)
	if err != nil {
		return AdapterInfo{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	a.id = t.next
	t.all[opts.Name] = a
	return a.info, nil
}

// room refuses one adapter too many. Two that are loaded at the same time may both find the last place.
func (t *Adapters) room(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.all); t.opts.MaxAdapters > 0 && n >= t.opts.MaxAdapters && t.all[name] == nil {
		return fmt.Errorf("%w: %d adapters are loaded, which is max_loras; unload one or raise --max-loras", ErrAdapter, n)
	}
	return nil
}

// Unload takes an adapter away; false: there is none of that name. Requests that run go on with it.
func (t *Adapters) Unload(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.all[name]
	delete(t.all, name)
	return ok
}

// Most is how many may be loaded at once; 0 is any number.
func (t *Adapters) Most() int { return t.opts.MaxAdapters }

// List describes the loaded adapters, in the order of loading.
func (t *Adapters) List() []AdapterInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.SortedFunc(maps.Values(t.all), func(a, b *adapter) int { return cmp.Compare(a.id, b.id) })
	infos := make([]AdapterInfo, len(list))
	for i, a := range list {
		infos[i] = a.info
	}
	return infos
}

// Find describes a loaded adapter; false: there is none of that name.
func (t *Adapters) Find(name string) (AdapterInfo, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.all[name]
	if !ok {
		return AdapterInfo{}, false
	}
	return a.info, true
}

// of is the adapter that a request names, nil where it names none.
func (t *Adapters) of(r *inference.Request) (*adapter, error) {
	if r.Adapter == "" {
		return nil, nil //nolint:nilnil // as the comment says
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.all[r.Adapter]
	if a == nil {
		return nil, fmt.Errorf("%w: %.80q is not loaded; it may have been unloaded since the request came", inference.ErrNoAdapter, r.Adapter)
	}
	return a, nil
}

// HeldAdapter is an adapter as it was loaded when it was held: requests of a call that come one after the other have the same, also where it is
// unloaded or replaced between them.
type HeldAdapter struct {
	Info    AdapterInfo
	adapter *adapter
}

// Hold holds the adapter of a name for Engine.SubmitHeld; false: there is none.
func (t *Adapters) Hold(name string) (HeldAdapter, bool) {
	a, err := t.of(&inference.Request{Adapter: name})
	if err != nil || a == nil {
		return HeldAdapter{}, false
	}
	return HeldAdapter{a.info, a}, true
}
