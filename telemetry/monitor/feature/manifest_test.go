package feature

import (
	"math"
	"strings"
	"testing"

	"weir/internal/tensor"
	"weir/router"
)

// What a manifest gets wrong is said with the place and the way out.
func TestManifestErrors(t *testing.T) {
	edit := func(old, now string) string {
		if !strings.Contains(shopManifest, old) {
			t.Fatalf("the manifest has no %q", old)
		}
		return strings.Replace(shopManifest, old, now, 1)
	}
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"version: 2\nfeatures: []", "reads version 1"},
		{"version: 1", "the list is empty"},
		{edit("project: shop", "project: shop\nprojet: x"), "projet"},
		{edit("project: shop", "project: shop\nproject: x"), "project"},
		{edit("project: shop", ""), "project"},
		{edit("project: shop", "project: a b"), "printable"},
		{edit("type: number, required: true", "type: decimal, required: true"), `type "decimal" is unknown`},
		{edit("source: request", "source: header"), `source "header" is unknown`},
		{edit("default: 30", "default: thirty"), `default: "thirty" is not of type integer`},
		{edit("default: 30", `default: "30"`), "is not of type integer"},
		{edit("default: 30", "default: 300"), "outside of its own range"},
		{edit("default: 30", "default: 30, required: true"), "exclude each other"},
		{edit("entity: item", "entity: items"), `entity "items" is not in the list`},
		{edit("min: 0, max: 1000", "min: 10, max: 1"), "min 10 is above max 1"},
		{edit("[Bonn, Rome, Oslo]", "[Bonn, Rome, Bonn]"), "listed twice"},
		{edit("default: Rome, ", ""), "there is none"},
		{edit("max_staleness: 1m", "max_staleness: 10ms"), "cache.fresh"},
		{edit("stale: 10s", "stale: 10ms"), "fresh <= stale"},
		{edit("on_violation: reject", "on_violation: drop"), "known are flag, clip and reject"},
		{edit("name: bias", "name: age"), `"age" has the name of`},
		{edit("name: bias", "name: user_id"), `"user_id" has the name of`},
		{edit("type: number, value: 1", "type: number"), "a constant needs a value"},
		{edit("source: request, type: number", "source: request, type: number, view: v"), "belong to source: store"},
		{edit("project: shop", "project: shop\nschema: sha256:77"), "not those that the hash was made of"},
		{edit("type: integer}", "type: number}"), "a key is integer or string"},
		{"a: &x 1\nb: *x", "anchors"},
		{shopManifest + "---\nversion: 1\n", "one document"},
		{strings.Repeat("#", MaxBytes+1), "at most"},
	} {
		if _, err := ParseManifest([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// The schema tells names, order, types and categories apart, and nothing else.
func TestSchema(t *testing.T) {
	hash := mustParse(t, shopManifest).Schema()
	for _, c := range []struct {
		old, now string
		same     bool
	}{
		{"default: 30", "default: 31", true}, {"fresh: 1s", "fresh: 2s", true}, {"field: gross", "field: net", true},
		{"name: price", "name: cost", false}, {"age, source: store, entity: user, view: profile, type: integer", "age, source: store, entity: user, view: profile, type: number", false},
		{"[Bonn, Rome, Oslo]", "[Rome, Bonn, Oslo]", false},
	} {
		if got := mustParse(t, strings.Replace(shopManifest, c.old, c.now, 1)).Schema(); (got == hash) != c.same {
			t.Errorf("%q to %q: the same hash: %v", c.old, c.now, got == hash)
		}
	}
	mustParse(t, strings.Replace(shopManifest, "project: shop", "project: shop\nschema: "+hash, 1))
}

// A manifest that is not that of the model's inputs is refused at load.
func TestManifestFitsTheModel(t *testing.T) {
	spec := func(name string, typ tensor.Type, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, Type: typ, Shape: shape}
	}
	for _, c := range []struct {
		features string
		inputs   []tensor.Spec
		want     string // "": it fits
	}{
		{"{name: a, source: request, type: number}", []tensor.Spec{spec("input", tensor.Float32, -1, 1)}, ""},
		{"{name: a, source: request, type: number}", []tensor.Spec{spec("input", tensor.Float32, -1, 2)}, "has 2 features, the manifest 1"},
		{"{name: a, source: request, type: string}", []tensor.Spec{spec("input", tensor.Float32, -1, 1)}, "list its categories"},
		{"{name: a, source: request, type: number}", []tensor.Spec{spec("a", tensor.Float32, -1), spec("b", tensor.Float32, -1)}, "2 inputs, the manifest 1"},
		{"{name: a, source: request, type: number}", []tensor.Spec{spec("b", tensor.Float32, -1)}, `no feature has its input "b"`},
		{"{name: a, source: request, type: integer}", []tensor.Spec{spec("a", tensor.Int64, -1)}, "give it a default"},
		{"{name: a, source: request, type: integer, default: 1}", []tensor.Spec{spec("a", tensor.Int64, -1)}, ""},
		{"{name: a, source: request, type: string, categories: [x], default: x}", []tensor.Spec{spec("a", tensor.Int64, -1)}, "give it a default"},
		{"{name: a, source: request, type: string, categories: [x], default: x, on_violation: clip}", []tensor.Spec{spec("a", tensor.Int64, -1)}, ""},
		{"{name: a, source: request, type: number, default: 1}", []tensor.Spec{spec("a", tensor.Int64, -1)}, "is a number"},
		{"{name: a, source: request, type: number, default: 1}", []tensor.Spec{spec("a", tensor.Float16, -1)}, "no feature fills"},
		{"{name: a, source: request, type: number}", []tensor.Spec{spec("a", tensor.Float32, -1, 3, 4)}, "a feature fills"},
		{"{name: a, source: store, view: v, entity: e, type: number}", []tensor.Spec{spec("a", tensor.Float32, -1)}, "none is configured"},
	} {
		m := mustParse(t, "{version: 1, project: p, entities: [{name: e, keys: [{input: id, type: string}]}], features: ["+c.features+"]}")
		_, err := NewPredictor(&columns{specs: c.inputs}, m, nil, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s and %v: %v, want %q", c.features, c.inputs, err, c.want)
		}
	}
}

// A manifest that parses has a schema, and resolves rows of any floats without panic.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(shopManifest))
	f.Add([]byte(`{"version":1,"features":[{"name":"a","source":"request","type":"number","min":-1,"on_violation":"clip"}]}`))
	f.Add([]byte("version: 1\nfeatures:\n- {name: a, source: constant, type: boolean, value: yes}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		if len(m.Schema()) != len("sha256:")+64 || len(m.Features) == 0 {
			t.Fatalf("schema %q of %d features", m.Schema(), len(m.Features))
		}
		j, err := NewJoin(m, NewOnline(&fakeStore{}, OnlineOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		var rows Rows
		p := router.Prediction{Inputs: []tensor.Tensor{column(m.Features[0].Name, 1, math.Inf(-1), math.NaN())}}
		if j.Resolve(t.Context(), &p, &rows) == nil && rows.Len() != 3 {
			t.Errorf("%d rows of 3", rows.Len())
		}
	})
}

// Tensors of any bytes, types and shapes are resolved or refused.
func FuzzResolve(f *testing.F) {
	f.Add("amount", uint8(tensor.Float32), []byte{0, 0, 0x80, 0x3f}, int64(1), int64(1))
	f.Add("user_id", uint8(tensor.Uint64), []byte{255, 255, 255, 255, 255, 255, 255, 255}, int64(1), int64(0))
	f.Add("input", uint8(tensor.Float64), make([]byte, 48), int64(1), int64(6))
	f.Fuzz(func(t *testing.T, name string, typ uint8, data []byte, rows, width int64) {
		m := mustParse(t, shopManifest)
		j, err := NewJoin(m, NewOnline(&fakeStore{}, OnlineOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		j.matrix = "input"
		in := tensor.Tensor{Name: name, Type: tensor.Type(typ % 15), Shape: []int64{rows, width}, Data: data}
		if in.Type == tensor.Bytes {
			in.Data, in.Strings = nil, [][]byte{data}
		}
		if width == 0 {
			in.Shape = in.Shape[:1]
		}
		var got Rows
		_ = j.Resolve(t.Context(), &router.Prediction{Inputs: []tensor.Tensor{in}}, &got)
	})
}
