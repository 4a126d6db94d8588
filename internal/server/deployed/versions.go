// Package deployed keeps which versions deployments have brought to a server: what each is made of, the files that it holds in the models
// folder, and the list of versions that each model has of its deployment. While a model has such a list the deployment, and not the
// configuration, decides which version answers.
//
//	versions := deployed.New()
//	records, changed := versions.Offer("chat", list) // of a deployment
//	versions.Set("chat", list)
//	…
//	versions.Withdraw("chat")
package deployed

import (
	"maps"
	"slices"
	"sync"

	"weir/configs"
	"weir/router/deployment"
	"weir/router/registry"
)

// Versions are what deployments have brought. It is safe for concurrent use.
type Versions struct {
	mu     sync.Mutex
	files  map[string]*files                // by digest
	made   map[string]map[string]made       // by model and label
	listed map[string][]deployment.Revision // by model; one with an entry has a deployment here
}

// made is a version whose files are here.
type made struct {
	record configs.ServedModel
	digest string // empty: it has no files in the models folder
}

// files stay in the models folder as long as a version is made of them, or is about to be.
type files struct {
	*registry.Held
	awaited int // calls that are about to make a version of them
}

// New has brought nothing.
func New() *Versions {
	return &Versions{files: make(map[string]*files), made: make(map[string]map[string]made), listed: make(map[string][]deployment.Revision)}
}

// Decides reports whether a deployment decides which version of a model answers.
func (v *Versions) Decides(model string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, has := v.listed[model]
	return has
}

// Offer looks at a list of versions that a model is to have: records are those that were made, in its order; the others stand in the
// configuration. changed is false where the model has the list already. From an offer of a version on the deployment decides.
func (v *Versions) Offer(model string, list []deployment.Revision) (records []configs.ServedModel, changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, has := v.listed[model]
	if has == (len(list) > 0) && slices.EqualFunc(before, list, func(a, b deployment.Revision) bool { return a.Label == b.Label && a.Digest == b.Digest }) {
		return nil, false
	}
	if !has && len(list) > 0 {
		v.listed[model] = nil
	}
	for _, r := range list {
		if m, ok := v.made[model][r.Label]; ok {
			records = append(records, m.record)
		}
	}
	return records, true
}

// Withdraw lets the configuration decide again.
func (v *Versions) Withdraw(model string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.listed, model)
}

// Set notes the list of versions that a model has, forgets those that are in it no more, and lets files go that no version is made of.
func (v *Versions) Set(model string, list []deployment.Revision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.made[model], func(label string, _ made) bool {
		return !slices.ContainsFunc(list, func(r deployment.Revision) bool { return r.Label == label })
	})
	if v.listed[model] = slices.Clone(list); len(list) == 0 {
		delete(v.listed, model)
		delete(v.made, model)
	}
	used := make(map[string]bool)
	for _, labels := range v.made {
		for _, m := range labels {
			used[m.digest] = true
		}
	}
	for digest, f := range v.files {
		if !used[digest] && f.awaited == 0 {
			_ = f.Release() // its lease ends with the process at the latest
			delete(v.files, digest)
		}
	}
}

// Make notes what the version of a label is made of. Its files were held before; without a digest it has none.
func (v *Versions) Make(record configs.ServedModel, digest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made[record.Name] == nil {
		v.made[record.Name] = make(map[string]made)
	}
	v.made[record.Name][record.Version] = made{record, digest}
}

// Record is what a version of a model is made of; false: it was not made.
func (v *Versions) Record(model, label string) (configs.ServedModel, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok := v.made[model][label]
	return m.record, ok
}

// Held are files that are here, for a version that is about to be made of them; nil: they are not. The caller calls done when it is made.
func (v *Versions) Held(digest string) (held *registry.Held, done func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.files[digest]
	if f == nil {
		return nil, func() {}
	}
	return f.Held, v.await(f)
}

// Hold takes files that were loaded, for a version that is about to be made of them, unless another one has the same. The caller calls done
// when it is made.
func (v *Versions) Hold(loaded *registry.Held) (held *registry.Held, done func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	digest := string(loaded.Digest)
	f := v.files[digest]
	if f == nil {
		f = &files{Held: loaded}
		v.files[digest] = f
	} else {
		_ = loaded.Release()
	}
	return f.Held, v.await(f)
}

// await keeps files until done. The caller holds mu.
func (v *Versions) await(f *files) (done func()) {
	f.awaited++
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		f.awaited--
	})
}
