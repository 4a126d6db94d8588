package configs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"weir/api/tenant"
)

// A tenant of the example, as JSON, is the tenant that the file describes, and what TenantSpec shows of it is read back as it.
func TestTenantsAsJSON(t *testing.T) {
	const spec = `{"name":"acme","weight":4,"class":"default","highest_class":"interactive","models":["a,b","c"],
		"limits":{"requests_per_minute":600,"daily_cost":"12.50","monthly_cost":250,"enforcement":"strict"},
		"model_limits":[{"model":"c","max_streams":3}],"first_token_timeout":"10s","cache_group":"g","log_prompts":true,"residency":["eu","eu-north"],
		"certificates":["cn:x"],"claims":[{"issuer":"login","claim":"groups","value":"A\u00e9\ud83d\ude00"}]}`
	one, err := ParseTenant("the body", []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	var file Sources
	file.config = Default()
	if err := file.Decode("x.yml", []byte("tenants:\n  - "+strings.NewReplacer("\n", "", `\u00e9\ud83d\ude00`, "é😀").Replace(spec))); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, file.config.Tenants[0]) || len(one.Models) != 2 || one.Claims[0].Value != "Aé😀" {
		t.Errorf("%+v, want %+v", one, file.config.Tenants[0])
	}
	shown, err := json.Marshal(TenantSpec(&one))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseTenant("the body", shown); err != nil || !reflect.DeepEqual(again, one) {
		t.Errorf("%s is %+v, %v; want %+v", shown, again, err, one)
	}
	plain := tenant.New("x")
	if spec := TenantSpec(&plain); len(spec) != 1 {
		t.Errorf("a plain tenant is %v", spec)
	}
	merged, err := Merge(TenantSpec(&one), []byte(`{"weight":9,"models":null,"limits":{"daily_cost":null,"max_streams":1},"model_limits":null}`))
	if err != nil {
		t.Fatal(err)
	}
	next, err := ParseTenant("the body", merged)
	if err != nil || next.Weight != 9 || next.Models != nil || next.Limits.DailyCost != 0 || next.Limits.MaxStreams != 1 || next.Limits.RequestsPerMinute != 600 {
		t.Errorf("%s: %+v, %v", merged, next, err)
	}
	for body, want := range map[string]string{
		`{"name":"a","wieght":1}`: "unknown key tenant.wieght", `{"name":"a","weight":"many"}`: "tenant.weight", `{"name":"a","name":"b"}`: "name",
		`[]`: "the body", ``: "no JSON", `{"name":"a b"}`: "tenant.name", `{"weight":2}`: "name is", `{"name":"a","residency":["e u"]}`: "residency has the region", `{"name":"a","class":"interactive","highest_class":"batch"}`: "above highest_class",
	} {
		if _, err := ParseTenant("the body", []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for _, patch := range []string{`null`, `[]`, `{`, `1`} {
		if _, err := Merge(nil, []byte(patch)); err == nil {
			t.Errorf("the patch %s is taken", patch)
		}
	}
}
