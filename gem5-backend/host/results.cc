// SPDX-License-Identifier: GPL-2.0-only
#include "host/results.hh"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace drfq {
namespace {

double reduce(std::vector<double> v, const std::string &statistic) {
  std::sort(v.begin(), v.end());
  if (statistic == "min") return v.front();
  if (statistic == "max") return v.back();
  if (statistic == "worst")
    return std::fabs(v.front()) > std::fabs(v.back()) ? v.front() : v.back();
  if (statistic == "mean") {
    double sum = 0;
    for (double x : v) sum += x;
    return sum / static_cast<double>(v.size());
  }
  const std::size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double figure(const Figures &f, const std::string &name) {
  const auto it = f.find(name);
  return it == f.end() ? std::nan("") : it->second;
}

std::size_t reference_of(const Experiment &e, std::size_t point) {
  const auto wanted = reference_settings(e, point);
  for (std::size_t i = 0; i < e.points.size(); i++)
    if (e.points[i].settings == wanted) return i;
  throw std::logic_error("load_experiment() checks that there is a reference");
}

bool concerns(const Expectation &x, const Point &p) {
  if (x.when_key.empty()) return true;
  for (const auto &s : p.settings)
    if (s.first == x.when_key) return s.second == x.when_value;
  return false;
}

}  // namespace

void check_figures(const std::string &file, const Experiment &e) {
  Scenario probe = e.points[0].scenario;
  probe.warmup_ns = probe.duration_ns = probe.window_ns = 1000;
  Figures known = run(probe);
  known["ratio_error_percent"];
  for (const Column &c : all_columns(e))
    if (!known.count(c.figure))
      throw toml::Error(file, 1, "[report]: there is no figure '" + c.figure + "'");
}

Experiment load_checked_experiment(const std::string &file, const std::string &text) {
  Experiment e = load_experiment(file, text);
  check_figures(file, e);
  return e;
}

Results run_all(const Experiment &e, const Runner &runner,
                const std::function<void(std::size_t, std::size_t)> &progress) {
  Results r;
  std::size_t done = 0;
  const std::size_t all = e.points.size() * e.seeds.size();
  for (std::size_t point = 0; point < e.points.size(); point++) {
    r.figures.emplace_back();
    for (std::uint64_t seed : e.seeds) {
      Scenario s = e.points[point].scenario;
      s.seed = seed;
      r.figures.back().push_back(runner(point, s));
      progress(++done, all);
    }
  }
  return r;
}

double value(const Experiment &e, const Results &r, std::size_t point, const Column &c) {
  const auto &base = r.figures[c.relative ? reference_of(e, point) : point];
  std::vector<double> v;
  for (std::size_t s = 0; s < r.figures[point].size(); s++) {
    double x = figure(r.figures[point][s], c.figure);
    if (c.relative) x /= figure(base[s], c.figure);
    if (!std::isfinite(x)) return std::nan("");
    v.push_back(x);
  }
  return reduce(v, c.statistic);
}

Judgement judge(const Experiment &e, const Results &r, const Expectation &x) {
  unsigned rows = 0, missed = 0;
  for (std::size_t i = 0; i < e.points.size(); i++) {
    if (!concerns(x, e.points[i])) continue;
    const double v = value(e, r, i, x.column);
    // An error is judged by its magnitude.
    const double judged = x.column.statistic == "worst" ? std::fabs(v) : v;
    rows++;
    missed +=
        !std::isfinite(v) || (x.has_least && judged < x.least) || (x.has_most && judged > x.most);
  }
  return {rows, missed};
}

bool held(const Experiment &e, const Results &r) {
  for (const Expectation &x : e.expectations) {
    const Judgement j = judge(e, r, x);
    if (j.missed != 0 || j.rows == 0) return false;
  }
  return true;
}

}  // namespace drfq
