package models_test

import (
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/router"
)

// upstream stands for servers that are not asked.
type upstream struct{ router.Upstream }

func set(t *testing.T, list ...*models.Model) *models.Set {
	t.Helper()
	s, err := models.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFind(t *testing.T) {
	one := &models.Model{ID: "one", Aliases: []string{"first"}, Upstream: upstream{}}
	two := &models.Model{ID: "two", Upstream: upstream{}}
	s := set(t, two, one)
	if got := s.IDs(); got != "one, two" {
		t.Error(got)
	}
	for name, want := range map[string]*models.Model{"one": one, "first": one, "two": two, "": nil, "three": nil, "One": nil, "one@1": nil} {
		if got, ok := s.Find(name); got != want || ok != (want != nil) {
			t.Errorf("%q is %v, %v", name, got, ok)
		}
	}
	if got, ok := set(t, one).Find(""); got != one || !ok {
		t.Errorf("the only model is not found without a name: %v", got)
	}
	if part := s.Of(&tenant.Caller{Tenant: &tenant.Tenant{Models: []string{"first"}}}); part.IDs() != "one" {
		t.Errorf("a tenant with the alias of one model sees %q", part.IDs())
	}
}

func TestNewSetChecksItsModels(t *testing.T) {
	for _, tc := range []struct {
		want string
		list []*models.Model
	}{
		{`two models are called "a"`, []*models.Model{{ID: "a", Upstream: upstream{}}, {ID: "b", Aliases: []string{"a"}, Upstream: upstream{}}}},
		{"a model has no id", []*models.Model{{}}},
		{`model "a" lacks a tokenizer`, []*models.Model{{ID: "a"}}},
		{`more than one of an upstream, a pooler and a backend`, []*models.Model{{ID: "a", Upstream: upstream{}, Pooler: &models.Pooler{}}}},
	} {
		if _, err := models.NewSet(tc.list); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}
