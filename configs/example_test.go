package configs_test

import (
	"fmt"

	"weir/configs"
)

// Sources are applied from the weakest to the strongest: defaults, a file, the environment, flags.
func Example() {
	s := configs.New()
	err := s.Decode("weir.yaml", []byte(`
server:
  port: 9000
scheduler:
  max_num_seqs: 32
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.ReadEnv([]string{"WEIR_MAX_NUM_SEQS=64"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := s.SetFlag("port", "0"); err != nil {
		fmt.Println(err)
		return
	}
	c, err := s.Config()
	fmt.Println(c.Server.Port, c.Scheduler.MaxSeqs, err)
	for setting, origin := range s.All() {
		if origin.Kind != configs.FromDefault {
			fmt.Println(setting.Key, "from", origin)
		}
	}
	// Output:
	// 0 64 <nil>
	// server.port from flag --port
	// scheduler.max_num_seqs from environment WEIR_MAX_NUM_SEQS
}
