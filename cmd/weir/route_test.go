package main

import (
	"bytes"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/router/fleet"
)

func TestRouteNeedsReplicas(t *testing.T) {
	for _, args := range [][]string{{"route"}, {"route", "--model", "x.gguf"}} {
		var out, errs bytes.Buffer
		if code := execute(args, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "no model has replicas") {
			t.Errorf("%v: %d %s", args, code, errs.String())
		}
	}
}

// A router takes classical models alone and beside language models, and none that it would have to compute.
func TestRouteTakesClassicalModels(t *testing.T) {
	trees := configs.NewClassic(defaultmodel.IrisName, "")
	trees.Replicas = []fleet.Source{{URL: "http://127.0.0.1:1", Kind: fleet.Weir}}
	computed := configs.NewClassic("churn", "churn.ubj")
	routed := configs.NewServedModel("chat", "")
	routed.Replicas = []fleet.Source{{URL: "http://127.0.0.1:1/v1", Kind: fleet.Weir}}
	language := []configs.ServedModel{routed}
	for name, c := range map[string]struct {
		models  []configs.ServedModel
		classic []configs.Classic
		want    string
	}{
		"classical":       {nil, []configs.Classic{trees}, ""},
		"both":            {language, []configs.Classic{trees}, ""},
		"language":        {language, nil, ""},
		"none":            {nil, nil, "no model has replicas"},
		"computed":        {nil, []configs.Classic{computed}, "no model has replicas"},
		"computed beside": {language, []configs.Classic{trees, computed}, "computes no model"},
	} {
		err := checkRoutes(configs.Config{Models: c.models, Classic: c.classic})
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
