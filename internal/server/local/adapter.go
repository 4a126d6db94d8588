package local

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/llm"
)

// OpenAdapter opens an adapter's file: the path of a GGUF file, or of a folder with one.
func OpenAdapter(path string) (*gguf.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		list, err := filepath.Glob(filepath.Join(path, "*.gguf"))
		if err != nil || len(list) != 1 {
			return nil, fmt.Errorf("%w: the folder %s has %d GGUF files, and must have one; adapters of PEFT become one by llama.cpp's convert_lora_to_gguf.py",
				llm.ErrAdapter, path, len(list))
		}
		path = list[0]
	}
	return gguf.Open(path)
}

// DescribeAdapters tells what each adapter of the configuration would be beside its model's file. The error names the one that does not fit.
func DescribeAdapters(model *gguf.File, c configs.Config, o llm.Options) ([]llm.AdapterInfo, error) {
	modules := c.Model.LoraModules()
	list := make([]llm.AdapterInfo, 0, len(modules))
	for _, m := range modules {
		info, err := describeAdapter(model, m, o)
		if err != nil {
			return nil, fmt.Errorf("the adapter %s: %w", m.Name, err)
		}
		list = append(list, info)
	}
	return list, nil
}

func describeAdapter(model *gguf.File, m configs.LoraModule, o llm.Options) (llm.AdapterInfo, error) {
	f, err := OpenAdapter(m.Path)
	if err != nil {
		return llm.AdapterInfo{}, err
	}
	defer f.Close()
	info, err := llm.DescribeAdapter(model, f, o, llm.AdapterOptions{Name: m.Name, Scale: m.Scale})
	if err != nil {
		return info, fmt.Errorf("%s: %w", m.Path, err)
	}
	return info, nil
}
