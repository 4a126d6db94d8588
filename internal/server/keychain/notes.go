package keychain

import (
	"fmt"
	"slices"

	"weir/api/tenant"
	"weir/internal/console"
)

// ModelNotes warn an operator of names in a key's list of models: those that no model has, and those that its tenant may not use.
// known are the names of models; nil where they are not known.
func ModelNotes(key *tenant.Key, of *tenant.Tenant, known []string) (notes []string) {
	change := fmt.Sprintf("weir keys change %s --model NAME gives the key another list", key.ID)
	var unknown, denied []string
	for _, name := range key.Models {
		switch {
		case known != nil && !slices.Contains(known, name):
			unknown = append(unknown, name)
		case of != nil && !of.MayUse(name):
			denied = append(denied, name)
		}
	}
	switch {
	case known == nil && len(key.Models) > 0:
		notes = append(notes, fmt.Sprintf("The configuration names no models (--config), so whether there is one called %s was not checked; GET /v1/models lists those of a server.",
			console.ShortList(key.Models)))
	case len(unknown) > 0:
		notes = append(notes, fmt.Sprintf("There is no model called %s among %s; %s.", console.ShortList(unknown), console.ShortList(known), change))
	}
	if len(denied) > 0 {
		notes = append(notes, fmt.Sprintf("Tenant %s may not use %s (its list models), and so the key may not; %s.", key.Tenant, console.ShortList(denied), change))
	}
	return notes
}
