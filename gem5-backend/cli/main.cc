// SPDX-License-Identifier: GPL-2.0-only
// The command line of drfq-mc.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>

#include "cli/commands.hh"

namespace {

using namespace drfq;

constexpr int kUsage = 2;

/// One subcommand. Its options live as long as the application.
template <class Options>
class Subcommand {
 public:
  Subcommand(CLI::App *app, int *status, const std::string &name, const std::string &about,
             int (*command)(const Options &))
      : sub_(app->add_subcommand(name, about)), options_(std::make_shared<Options>()) {
    sub_->callback([options = options_, status, command] { *status = command(*options); });
  }
  CLI::App *operator->() const { return sub_; }
  Options &options() const { return *options_; }

 private:
  CLI::App *sub_;
  std::shared_ptr<Options> options_;
};

/// Accepts numbers from least (if above: only those above it) to most.
CLI::Validator number(double least, double most, bool above = false) {
  const auto check = [=](const std::string &text) -> std::string {
    double v = 0;
    if (CLI::detail::lexical_cast(text, v) && (above ? v > least : v >= least) && v <= most)
      return {};
    std::ostringstream why;
    why << text << " is no number " << (above ? "above " : "from ") << least
        << (above ? " and at most " : " to ") << most;
    return why.str();
  };
  return CLI::Validator(check, "");
}

void add_run(CLI::App *app, int *status) {
  Subcommand<RunOptions> run(app, status, "run",
                             "Run an experiment file: a table, and a plot with --svg", command_run);
  RunOptions &o = run.options();
  run->add_option("EXPERIMENT", o.experiment, "The experiment file (experiments/README.md)")
      ->required();
  run->add_option("--svg", o.svg, "Also write a bar chart of the experiment's plot column")
      ->type_name("FILE");
  run->add_flag("--check", o.check, "Exit with 3 when an expectation of the file is missed");
  run->add_option("--simulator", o.simulator,
                  "Run each combination by this command (host/simulator.hh)")
      ->type_name("COMMAND");
}

CLI::Option *add_memory(CLI::App *command, std::string *to) {
  return command->add_option("--memory", *to, "Take the [memory] table of this experiment file")
      ->type_name("FILE");
}

void add_serve(CLI::App *app, int *status) {
  Subcommand<ServeOptions> serve(app, status, "serve", "Offer the controller on a Unix socket",
                                 command_serve);
  ServeOptions &o = serve.options();
  serve->add_option("--socket", o.server.path, "Where to listen; only this user can connect")
      ->required()
      ->type_name("PATH");
  add_memory(serve.operator->(), &o.memory);
  CLI::Option *free_running = serve->add_flag_callback(
      "--free-running", [&o] { o.server.mode = Service::Mode::free_running; },
      "Let simulated time follow the clock, not the writer");
  serve
      ->add_option("--rate", o.server.rate,
                   "Free-running: simulated seconds per second, above 0 and at most 1000 (1)")
      ->check(number(0, 1000, true))
      ->needs(free_running)
      ->type_name("RATE");
  serve->footer("The server stops on SIGINT and SIGTERM. PROTOCOL.md describes the protocol.");
}

void add_traces(CLI::App *app, int *status) {
  Subcommand<RecordOptions> record(app, status, "record",
                                   "Write the packets of an experiment as a trace", command_record);
  record
      ->add_option("EXPERIMENT", record.options().experiment,
                   "The experiment file; its first combination and seed run")
      ->required();
  record->add_option("--out", record.options().out, "The trace to write")
      ->required()
      ->type_name("TRACE");
  Subcommand<ReplayOptions> replay(app, status, "replay", "Run traces through the controller",
                                   command_replay);
  ReplayOptions &o = replay.options();
  replay->add_option("TRACE", o.files, "Traces (model/TRACES.md)")->required();
  CLI::Option *memory = add_memory(replay.operator->(), &o.memory);
  CLI::Option *log =
      replay->add_option("--log", o.log, "Write every decision, one a line; takes one TRACE")
          ->type_name("FILE");
  replay
      ->add_flag("--decisions", o.decisions,
                 "Decide again what these decision logs say; exit with 3 on a difference")
      ->excludes(memory)
      ->excludes(log);
}

void add_bench(CLI::App *app, int *status) {
  Subcommand<BenchOptions> bench(app, status, "bench", "Measure the model's own speed",
                                 command_bench);
  BenchOptions &o = bench.options();
  CLI::Option *ms =
      bench->add_option("MS", o.ms, "Simulated milliseconds of each case, 1 to 10^6 (100)")
          ->check(number(1, 1e6));
  bench->add_option("--socket", o.socket, "Measure the round trips of a running server instead")
      ->excludes(ms)
      ->type_name("PATH");
}

void add_memory_command(CLI::App *app, int *status) {
  Subcommand<MemoryCommandOptions> memory(
      app, status, "memory", "Print a [memory] table, or the default, as JSON", command_memory);
  memory->add_option("FILE", memory.options().file, "The experiment file");
}

}  // namespace

int main(int argc, char **argv) {
  int status = 0;
  CLI::App app("The memory controller of dominant resource fair queueing, and a model of its DRAM.",
               "drfq-mc");
  app.require_subcommand(1);
  app.footer("drfq-mc COMMAND --help shows the options of a command.");
  add_run(&app, &status);
  add_serve(&app, &status);
  add_traces(&app, &status);
  add_bench(&app, &status);
  add_memory_command(&app, &status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &e) {
    return app.exit(e);
  } catch (const CLI::ParseError &e) {
    std::cerr << "drfq-mc: " << e.what() << "\nRun drfq-mc COMMAND --help for the options.\n";
    return kUsage;
  } catch (const std::exception &e) {
    std::cerr << "drfq-mc: " << e.what() << "\n";
    return 1;
  }
  return status;
}
