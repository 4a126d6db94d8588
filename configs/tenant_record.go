package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"weir/api/tenant"
	"weir/scheduler/quota"
)

// ParseTenant reads one tenant from a JSON object with the keys of the list tenants; name stands for the text in errors.
// Unknown and repeated keys are errors, and all that is wrong is reported.
func ParseTenant(name string, spec []byte) (tenant.Tenant, error) {
	t := tenant.New("")
	if err := parseRecord(name, "tenant", spec, tenantFields(&t)); err != nil {
		return t, err
	}
	return t, t.Validate()
}

// ParseKeyTerms reads what a key may, from a JSON object with the keys limits and models of the list tenants, as
// ParseTenant does.
func ParseKeyTerms(name string, spec []byte) (tenant.KeyTerms, error) {
	var t tenant.KeyTerms
	if err := parseRecord(name, "key", spec, keyFields(&t)); err != nil {
		return t, err
	}
	return t, t.Validate()
}

// KeySpec is terms as ParseKeyTerms reads them.
func KeySpec(t *tenant.KeyTerms) map[string]any {
	spec := map[string]any{}
	if limits := limitSpec(&t.Limits); len(limits) > 0 {
		spec["limits"] = limits
	}
	if len(t.Models) > 0 {
		spec["models"] = t.Models
	}
	return spec
}

// parseRecord reads a JSON object into fields. what stands before their keys in errors.
func parseRecord(name, what string, spec []byte, fields []field) error {
	root, err := parseObject(name, spec)
	if err != nil {
		return err
	}
	d := &fileDecoder{sources: &Sources{}, name: name}
	return d.record(root, what, fields)
}

// parseObject reads a JSON object as the document that the file's decoder walks.
func parseObject(name string, spec []byte) (*yaml.Node, error) {
	if len(spec) > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes, limit %d", name, len(spec), maxFileBytes)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, spec); err != nil {
		return nil, fmt.Errorf("%s is no JSON object: %w", name, err)
	}
	document := line.Bytes()
	if bytes.Contains(document, []byte(`\u`)) { // YAML has no surrogates
		var value any
		decoder := json.NewDecoder(&line)
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s is no JSON object: %w", name, err)
		}
		document, _ = json.Marshal(value) //nolint:errchkjson // it was JSON
	}
	root, err := parseDocument(document) // JSON is YAML
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if root == nil {
		return nil, fmt.Errorf("%s is empty", name)
	}
	return root, nil
}

// TenantSpec is a tenant as ParseTenant reads it, without what is as in tenant.New.
func TenantSpec(t *tenant.Tenant) map[string]any {
	usual := tenant.New("")
	spec := specOf(tenantFields(t), tenantFields(&usual))
	for key, list := range map[string][]string{"models": t.Models, "certificates": t.Certificates, "residency": t.Residency} {
		if len(list) > 0 {
			spec[key] = list
		}
	}
	if limits := limitSpec(&t.Limits); len(limits) > 0 {
		spec["limits"] = limits
	}
	var models []any
	for _, model := range slices.Sorted(maps.Keys(t.ModelLimits)) {
		l := t.ModelLimits[model]
		entry := limitSpec(&l)
		entry["model"] = model
		models = append(models, entry)
	}
	if models != nil {
		spec["model_limits"] = models
	}
	var claims []any
	for i := range t.Claims {
		claims = append(claims, specOf(claimFields(&t.Claims[i]), claimFields(&tenant.Claim{})))
	}
	if claims != nil {
		spec["claims"] = claims
	}
	return spec
}

func limitSpec(l *quota.Limits) map[string]any {
	return specOf(limitFields(l), limitFields(&quota.Limits{}))
}

// specOf shows the plain values of a record that differ from the usual ones; lists and nested records are left out, and
// so is cut_answers, which is the older word of another key.
func specOf(fields, usual []field) map[string]any {
	spec := make(map[string]any)
	for i := range fields {
		f := &fields[i]
		if f.nested != nil || f.kind == list || f.key == "cut_answers" || f.show() == usual[i].show() {
			continue
		}
		switch value := f.show(); f.kind {
		case integer:
			spec[f.key] = json.Number(value)
		case boolean:
			spec[f.key] = value == "true"
		case text, amount, decimal, list:
			spec[f.key] = value
		}
	}
	return spec
}

// Merge lays a patch over a tenant's or a key's spec, as RFC 7396 has it: null takes a key away.
func Merge(spec map[string]any, patch []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.UseNumber()
	var changes map[string]any
	if err := decoder.Decode(&changes); err != nil || changes == nil {
		return nil, errors.Join(errors.New("the body is no JSON object"), err)
	}
	return json.Marshal(merge(spec, changes))
}

func merge(into, changes map[string]any) map[string]any {
	out := maps.Clone(into)
	for key, value := range changes {
		below, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isObject:
			old, _ := out[key].(map[string]any) // what is none is replaced
			if old == nil {
				old = map[string]any{}
			}
			out[key] = merge(old, below)
		default:
			out[key] = value
		}
	}
	return out
}
