package models

import (
	"context"
	"strings"
	"unicode"
)

// Adapter is a LoRA adapter of a model as requests know it: its entry's ID is its name, and PARENT:ID names it, too.
type Adapter struct {
	Parent string  // ID of the model
	Root   string  // its file, as it was named when it was loaded
	Scale  float32 // by which all that it adds is multiplied
}

// IsAdapterName reports whether an adapter may have a name. Metrics list names between commas.
func IsAdapterName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "@:,") && !strings.ContainsFunc(s, unicode.IsControl)
}

// qualified is the name of an adapter with that of its model; "" of other entries.
func (m *Model) qualified() string {
	if m.Adapter == nil {
		return ""
	}
	return m.Adapter.Parent + ":" + m.ID
}

// Base is the ID of the model whose file and place in lists an entry has: of an adapter its parent's.
func (m *Model) Base() string {
	if m.Adapter != nil {
		return m.Adapter.Parent
	}
	return m.ID
}

// AdapterLoad is an adapter that a caller wants loaded.
type AdapterLoad struct {
	Name, Path string
	Parent     string // name of the model; "" is the only one that takes adapters
	InPlace    bool   // an adapter of this name may be there, which is replaced
	Scale      float32
}

// AdapterTable loads and unloads adapters while a server runs. Implementations are safe for concurrent use. Errors for clients are *api.Error.
type AdapterTable interface {
	// LoadAdapter waits until the adapter can be asked. by says who wants it.
	LoadAdapter(ctx context.Context, by string, a AdapterLoad) error
	// UnloadAdapter takes one away; requests that run go on with it.
	UnloadAdapter(ctx context.Context, by, name string) error
}
