package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/engine/classic"
	"weir/internal/console"
	"weir/internal/tensor"
	"weir/telemetry/monitor/predictions"
)

// matchedInput is an input of a model, and the columns of a table that fill it.
type matchedInput struct {
	spec    tensor.Spec
	columns []int
}

// matchInputs finds the columns of a table that are a model's inputs: those that chosen names, in the model's order; else by the
// names of the model's features; else, where the model has no names, all of them in their order, which ordered tells. A column without
// a name is none of them.
func matchInputs(v *classic.Version, names, chosen []string) (list []matchedInput, ordered bool, err error) {
	specs := v.Describe().Inputs
	want, width, err := wantedColumns(v)
	if err != nil {
		return nil, false, err
	}
	there := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	take := chosen
	switch {
	case len(chosen) > 0:
	case want != nil:
		take = want
	default:
		take, ordered = there, true
	}
	var missing []string
	at := make([]int, len(take))
	for i, name := range take {
		if at[i] = slices.Index(names, name); at[i] < 0 {
			missing = append(missing, name)
		}
	}
	extra := slices.DeleteFunc(slices.Clone(there), func(name string) bool { return slices.Contains(take, name) })
	switch {
	case len(missing) > 0:
		return nil, false, fmt.Errorf("the rows have no column %s; they have besides: %s", console.Printable(console.ShortList(missing)), console.Printable(console.ShortList(extra)))
	case width >= 0 && len(take) != width && ordered:
		return nil, false, fmt.Errorf("the model takes %d columns as input %q, and its file does not name them; the rows have %d: %s", width, specs[0].Name,
			len(there), console.Printable(console.ShortList(there)))
	case width >= 0 && len(take) != width:
		return nil, false, fmt.Errorf("the model takes %d columns%s, and %d are named", width, named(want), len(take))
	case len(specs) == 1:
		return []matchedInput{{specs[0], at}}, ordered, nil
	}
	for i := range specs {
		list = append(list, matchedInput{specs[i], at[i : i+1]})
	}
	return list, ordered, nil
}

// wantedColumns are the names of a model's columns, nil where its file has none, and their number; -1 where that is open.
func wantedColumns(v *classic.Version) (names []string, width int, err error) {
	specs := v.Describe().Inputs
	for i := range specs {
		spec := &specs[i]
		if len(spec.Shape) == 0 || len(spec.Shape) > 2 || len(specs) > 1 && len(spec.Shape) == 2 && spec.Shape[1] > 1 {
			return nil, 0, fmt.Errorf("the input %q has shape %v, which is no row of columns", spec.Name, spec.Shape)
		}
		names = append(names, spec.Name)
	}
	switch {
	case len(specs) == 0:
		return nil, 0, errors.New("the model has no inputs")
	case len(specs) > 1:
		return names, len(names), nil
	}
	width = 1
	if len(specs[0].Shape) == 2 {
		width = int(specs[0].Shape[1])
	}
	return v.Columns(), width, nil
}

// featureNames are the names of columns without what a prediction log writes before those of features; the log's other columns
// are no features, and have no name.
func featureNames(columns []string) (names []string) {
	isLog := slices.ContainsFunc(columns, func(name string) bool { return strings.HasPrefix(name, predictions.FeaturePrefix) })
	for _, name := range columns {
		short, isFeature := strings.CutPrefix(name, predictions.FeaturePrefix)
		if isLog && !isFeature {
			short = ""
		}
		names = append(names, short)
	}
	return names
}
