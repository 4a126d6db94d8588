package digest

import (
	"reflect"
	"slices"
	"testing"

	"weir/internal/inference"
)

// The hash of a request takes in every field of a request that decides on its tokens.
func TestRequestKnowsEveryField(t *testing.T) {
	indifferent := []string{ // fields that decide on when, where and for whom, or that repeatable() fixes
		"ID", "Tenant", "Weight", "Class", "CacheDomain", "OverQuota", "Retries", "FirstTokenBy", "DoneBy", "WaitUntil", "N",
		"PromptLogprobs", "Pooling", "Speculation", "Arrived", "Logprobs", "LogprobTokens", "Sampling",
		"KV",         // where blocks of the same bits may be
		"Constraint", // job.constraintKey stands for it
		"Adapter",    // the version and the fingerprint of the job's model stand for it
	}
	hash := func(r *inference.Request) [32]byte {
		d := New()
		d.Request(r)
		return [32]byte(d.Sum(nil))
	}
	base := func() *inference.Request {
		return &inference.Request{Prompt: []inference.TokenID{1}, MaxTokens: 5, Sampling: inference.Sampling{Temperature: 1}}
	}
	seen := map[[32]byte]string{hash(base()): "nothing"}
	check := func(r *inference.Request, v reflect.Value) {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if slices.Contains(indifferent, name) {
				continue
			}
			old := reflect.ValueOf(v.Field(i).Interface())
			switch f := v.Field(i); f.Kind() {
			case reflect.Int:
				f.SetInt(f.Int() + 1)
			case reflect.Uint64:
				f.SetUint(9)
			case reflect.Float32:
				f.SetFloat(f.Float() + 0.5)
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Slice:
				f.Set(reflect.Append(f, reflect.Zero(f.Type().Elem())))
			default:
				t.Fatalf("%s is a %s", name, f.Kind())
			}
			h := hash(r)
			if other, found := seen[h]; found {
				t.Errorf("a change of %s is one of %s", name, other)
			}
			seen[h] = name
			v.Field(i).Set(old)
		}
	}
	r := base()
	check(r, reflect.ValueOf(r).Elem())
	check(r, reflect.ValueOf(&r.Sampling).Elem())
	if len(seen) < 17 {
		t.Errorf("only %d fields were tried", len(seen))
	}
}
