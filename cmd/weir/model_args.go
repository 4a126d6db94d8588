package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"weir/configs"
	"weir/internal/console"
)

// choosePath lets the verb's argument name the model, instead of the
// configuration.
func choosePath(c *configs.Config, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.Model.Path != "" && c.Model.Path != args[0] {
		return &console.UsageError{Err: fmt.Errorf("the argument names %q and the configuration %q", args[0], c.Model.Path),
			Hint: "name the model once"}
	}
	c.Model.Path = args[0]
	return nil
}

// chooseModels lets the verb's arguments name the models: one file stands for the
// configuration's model, several, or those with names, for records of its list.
func chooseModels(c *configs.Config, args []string) error {
	if len(args) == 1 {
		if name, _ := namedFile(args[0]); name == "" {
			return choosePath(c, args)
		}
	}
	for _, arg := range args {
		c.Models = append(c.Models, configs.NewServedModel(namedFile(arg)))
	}
	if len(args) > 1 && len(c.Model.ServedNames) > 0 && c.Model.Path == "" {
		return &console.UsageError{Err: errors.New("--served-model-name is for one model, and there are several"), Hint: "name them as NAME=FILE"}
	}
	if err := c.Validate(); err != nil {
		return console.ConfigError(err)
	}
	return nil
}

// namedFile reads NAME=FILE; a file with such a name is a file.
func namedFile(arg string) (name, path string) {
	name, path, named := strings.Cut(arg, "=")
	if _, err := os.Stat(arg); err == nil || !named || strings.ContainsAny(name, "/@") {
		return "", arg
	}
	return name, path
}
