package cli

func probeCommand() command { return command{name: "probe"} }
func demoCommand() command  { return command{name: "demo"} }
