//! The format of a CPU: a TOML file of parameters, built in or anyone's own.
//!
//! ```toml
//! name = "small"               # what reports call it; the file's name when left out
//! full_name = "A small Skylake"
//! aliases = ["tiny"]           # of built-in ones
//! base = "skl"                 # everything else is as in this CPU: built in, or a .toml file
//! table = "skl"                # instruction table; the base's when left out
//! qemu_cpu = "cortex-a72"      # what QEMU is to show the program, by which libraries choose code
//!
//! [retire]                     # any parameter of `params`
//! reorder_buffer = 96
//!
//! [[form]]                     # figures of single instruction forms: `measured`
//! name = "IMUL (R64, R64)"
//! throughput = 2
//! ```
//!
//! Keys replace those of the base one by one, lists as a whole; forms add up. Every error names the
//! file, the line and what would be right.

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::explain::{explained, key_at};
use super::measured::{self, MeasuredForm};
use super::params::Core;
use super::params::check::Wrong;
use super::table::FormTable;
use super::{BUILT_IN, CpuModel, Instructions, MachineError, built_in};
use crate::build;
use crate::llvm;
use crate::llvm::cost::Units;
use crate::llvm::forwarding::Forwarding;
use crate::llvm::sched::Machine;
use crate::near::nearest;

/// What a file says beside the parameters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) name: Option<Spanned<String>>,
    pub(super) full_name: Option<String>,
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    pub(super) base: Option<Spanned<String>>,
    pub(super) table: Option<Spanned<String>>,
    pub(super) qemu_cpu: Option<String>,
    #[serde(default, rename = "form")]
    pub(super) forms: Vec<Spanned<MeasuredForm>>,
}

const HEADER: [&str; 7] = [
    "name",
    "full_name",
    "aliases",
    "base",
    "table",
    "qemu_cpu",
    "form",
];

/// Gives the text of a file that is named as a base.
pub type Read<'r> = &'r dyn Fn(&str) -> Result<String, String>;

/// One file of a chain of bases.
struct Layer<'t> {
    place: &'t str,
    text: &'t str,
    header: Header,
    parameters: Spanned<DeTable<'t>>,
}

impl<'t> Layer<'t> {
    fn parse(place: &'t str, text: &'t str) -> Result<Self, MachineError> {
        let mut parameters =
            DeTable::parse(text).map_err(|e| at(place, text, e.span(), e.message()))?;
        let mut header = Spanned::new(parameters.span(), DeTable::new());
        for key in HEADER {
            if let Some((key, value)) = parameters.get_mut().remove_entry(key) {
                header.get_mut().insert(key, value);
            }
        }
        let keys = header.get_ref().clone();
        let header: Header = read(header).map_err(|e: toml::de::Error| {
            let key = e.span().and_then(|span| key_at(&keys, span.start));
            let what = explained(e.message(), key.as_deref(), &[], None);
            at(place, text, e.span(), &what)
        })?;
        Ok(Self {
            place,
            text,
            header,
            parameters,
        })
    }

    fn error(&self, span: Option<Range<usize>>, what: &str) -> MachineError {
        at(self.place, self.text, span, what)
    }

    /// Where a parameter stands: `retire.width`.
    fn span_of(&self, key: &str) -> Option<Range<usize>> {
        let mut table = self.parameters.get_ref();
        let mut found = None;
        for part in key.split('.') {
            let value = table.get(part)?;
            found = Some(value.span());
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        found
    }
}

fn read<T: DeserializeOwned>(table: Spanned<DeTable<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(Deserializer::from(table))
}

/// An error in a file.
fn at(place: &str, text: &str, span: Option<Range<usize>>, what: &str) -> MachineError {
    let before = span.and_then(|span| text.get(..span.start));
    MachineError::BadFile {
        place: place.to_owned(),
        line: before.map_or(1, |before| before.matches('\n').count() + 1),
        what: what.to_owned(),
    }
}

/// Reads only what a file says beside the parameters.
pub(super) fn header(place: &str, text: &str) -> Result<Header, MachineError> {
    Ok(Layer::parse(place, text)?.header)
}

/// Builds the model that a file describes. `place` is what errors call the file; `files` reads
/// those that it names as bases. A table that a file changes lives as long as the process.
///
/// # Errors
/// [`MachineError::BadFile`] names file, line and the way out.
pub fn model_from(place: &str, text: &str, files: Read<'_>) -> Result<Arc<CpuModel>, MachineError> {
    let texts = chain(place, text, files)?;
    let mut merged: Option<Spanned<DeTable<'_>>> = None;
    let mut layers: Vec<Layer<'_>> = Vec::new();
    let mut model: Option<CpuModel> = None;
    for (place, text) in texts.iter().rev() {
        let layer = Layer::parse(place, text)?;
        let table = match merged.take() {
            None => layer.parameters.clone(),
            Some(mut table) => {
                merge(table.get_mut(), layer.parameters.get_ref());
                table
            }
        };
        let core: Core = read(table.clone()).map_err(|e: toml::de::Error| {
            let parameters = layer.parameters.get_ref();
            let key = e.span().and_then(|span| key_at(parameters, span.start));
            let what = explained(e.message(), key.as_deref(), &HEADER, model.as_ref());
            layer.error(e.span(), &what)
        })?;
        merged = Some(table);
        layers.push(layer);
        core.check().map_err(|wrong| unbounded(&layers, &wrong))?;
        let core = core.without_replaced_parts();
        if let Some(layer) = layers.last() {
            model = Some(applied(layer, core, model)?);
        }
    }
    model
        .map(Arc::new)
        .ok_or_else(|| at(place, text, None, "it is empty"))
}

/// The files from `place` to the one without a base.
fn chain(place: &str, text: &str, files: Read<'_>) -> Result<Vec<(String, String)>, MachineError> {
    let mut texts = vec![(place.to_owned(), text.to_owned())];
    while let Some((place, text)) = texts.last() {
        let Some(base) = header(place, text)?.base else {
            break;
        };
        let error = |what: &str| at(place, text, Some(base.span()), what);
        let name = base.get_ref();
        let base = match built_in(name) {
            Some(built_in) => (built_in.name.to_owned(), built_in.text.to_owned()),
            None if name.ends_with(".toml") => {
                let text = files(name)
                    .map_err(|e| error(&format!("its base '{name}' cannot be read: {e}")))?;
                (name.clone(), text)
            }
            None => {
                let near = nearest(name, BUILT_IN.iter().map(|cpu| cpu.name));
                let meant = near
                    .first()
                    .map_or(String::new(), |near| format!("did you mean {near}? "));
                return Err(error(&format!(
                    "there is no CPU '{name}' to be its base; {meant}`mcad cpus` lists those that \
                     are built in, others are files whose names end in .toml"
                )));
            }
        };
        if texts.iter().any(|(place, _)| *place == base.0) {
            let way: Vec<&str> = texts.iter().map(|(place, _)| place.as_str()).collect();
            return Err(error(&format!(
                "its base leads back to itself ({} → {name}); name one that is built in",
                way.join(" → ")
            )));
        }
        texts.push(base);
    }
    // What LLVM says of the core lies below what the files say of it.
    if let Some((place, text)) = texts.last()
        && let Some(name) = header(place, text)?.table
    {
        let error = |what: &str| at(place, text, Some(name.span()), what);
        if let Some(cpu) = llvm::table::cpu(name.get_ref()).map_err(|what| error(&what))? {
            let below = llvm::model::parameters(&cpu).map_err(|what| error(&what))?;
            texts.push((format!("LLVM's model of {}", name.get_ref()), below));
        }
    }
    Ok(texts)
}

/// Replaces what `over` has, table by table. What is in both stands where `over` has it.
fn merge<'t>(table: &mut DeTable<'t>, over: &DeTable<'t>) {
    for (key, value) in over {
        let below = table
            .remove(key.get_ref().as_ref())
            .map(Spanned::into_inner);
        let value = match (below, value.get_ref()) {
            (Some(DeValue::Table(mut below)), DeValue::Table(over)) => {
                merge(&mut below, over);
                Spanned::new(value.span(), DeValue::Table(below))
            }
            _ => value.clone(),
        };
        table.insert(key.clone(), value);
    }
}

/// The model that a layer makes of the one below it.
fn applied(
    layer: &Layer<'_>,
    core: Core,
    base: Option<CpuModel>,
) -> Result<CpuModel, MachineError> {
    let header = &layer.header;
    let instructions = match (&header.table, &base) {
        (Some(name), _) => {
            instructions(name.get_ref()).map_err(|what| layer.error(Some(name.span()), &what))?
        }
        (None, Some(base)) => base.instructions.clone(),
        (None, None) => {
            return Err(layer.error(
                None,
                "it names neither a `base` that it changes nor a `table` of instructions",
            ));
        }
    };
    let instructions = with_forms(layer, &core, instructions)?;
    if let Some(in_order) = core.in_order.as_ref().filter(|core| !core.scheduled) {
        let known = build::knows_classes(in_order, &instructions);
        known
            .map_err(|what| layer.error(layer.span_of("in_order"), &format!("in_order: {what}")))?;
    }
    let stem = || {
        let file = layer.place.rsplit(['/', '\\']).next().unwrap_or_default();
        file.strip_suffix(".toml").unwrap_or(file).to_owned()
    };
    let name = match &header.name {
        Some(name) if name.get_ref().is_empty() => {
            return Err(layer.error(
                Some(name.span()),
                "name: is empty; leave it out, or give one",
            ));
        }
        Some(name) => name.get_ref().clone(),
        None => stem(),
    };
    let full_name = match (&header.full_name, &base) {
        (Some(full_name), _) => full_name.clone(),
        (None, Some(base)) => format!("{name}, changed from {}", base.full_name),
        (None, None) => name.clone(),
    };
    Ok(CpuModel {
        name,
        full_name,
        core,
        instructions,
        qemu_cpu: header
            .qemu_cpu
            .clone()
            .or(base.and_then(|base| base.qemu_cpu)),
    })
}

/// The figures of a table's name: uops.info's of a CPU, or LLVM's.
fn instructions(name: &str) -> Result<Instructions, String> {
    match llvm::table::cpu(name)? {
        Some(cpu) => Ok(Instructions::Llvm {
            cpu,
            units: Units::new(cpu.cpu)?,
            forwarding: Forwarding::new(cpu.cpu)?,
            machine: Machine::new(cpu.cpu)?,
        }),
        None => FormTable::for_cpu(name)
            .map(Instructions::X86)
            .map_err(|e| e.to_string()),
    }
}

/// The figures with those of single forms that a file has.
fn with_forms(
    layer: &Layer<'_>,
    core: &Core,
    instructions: Instructions,
) -> Result<Instructions, MachineError> {
    let Some(first) = layer.header.forms.first() else {
        return Ok(instructions);
    };
    let Instructions::X86(table) = instructions else {
        let what = "only tables of x86-64 have forms that a file can change";
        return Err(layer.error(Some(first.span()), what));
    };
    let mut own = table.clone();
    for form in &layer.header.forms {
        measured::apply(&mut own, form.get_ref(), &core.ports)
            .map_err(|what| layer.error(Some(form.span()), &what))?;
    }
    let forms = layer.header.forms.iter().map(Spanned::get_ref);
    let (count, digest) = (layer.header.forms.len(), digest(forms));
    own.name = format!("{}, {count} changed: {digest:016x}", own.name);
    Ok(Instructions::X86(Box::leak(Box::new(own))))
}

/// Tells figures of forms from others: 64-bit FNV-1a.
fn digest<'f>(forms: impl Iterator<Item = &'f MeasuredForm>) -> u64 {
    let text: String = forms.map(|form| format!("{form:?}")).collect();
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The error of a parameter out of its bounds, in the last file that has it.
fn unbounded(layers: &[Layer<'_>], wrong: &Wrong) -> MachineError {
    let what = format!("{}: {}", wrong.key, wrong.what);
    let place = layers.iter().rev();
    let mut found = place.filter_map(|layer| Some((layer, layer.span_of(&wrong.key)?)));
    match (found.next(), layers.last()) {
        (Some((layer, span)), _) => layer.error(Some(span), &what),
        (None, Some(layer)) => layer.error(None, &what),
        (None, None) => at("", "", None, &what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_file(name: &str) -> Result<String, String> {
        Err(format!("no file {name}"))
    }

    fn error(text: &str) -> String {
        let read = |name: &str| match name {
            "self.toml" => Ok("base = \"other.toml\"".to_owned()),
            "other.toml" => Ok("\nbase = \"self.toml\"".to_owned()),
            _ => no_file(name),
        };
        model_from("dir/mine.toml", text, &read)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let text = "base = \"skl\"\n[retire]\nreorder_buffer = 96\n";
        let model = model_from("dir/mine.toml", text, &no_file).unwrap();
        let base = super::super::cpu("skl").unwrap();
        assert_eq!(model.name, "mine");
        assert_eq!(model.core.retire.reorder_buffer, 96);
        let mut core = model.core.clone();
        core.retire.reorder_buffer = base.core.retire.reorder_buffer;
        assert_eq!(core, base.core);
        assert!(std::ptr::eq(model.forms().unwrap(), base.forms().unwrap()));
    }

    #[test]
    fn a_predictor_of_a_base_is_taken_away_by_name() {
        let text = "base = \"cortex-a53\"\n[in_order.predictor]\nkind = \"perfect\"\n";
        let model = model_from("dir/mine.toml", text, &no_file).unwrap();
        let base = super::super::cpu("cortex-a53").unwrap();
        let core = model.core.in_order.as_ref().unwrap();
        assert!(core.predictor.is_none() && core.memory.is_some());
        assert!(base.core.in_order.as_ref().unwrap().predictor.is_some());
    }

    #[test]
    fn a_changed_table_is_told_from_others() {
        let name = |throughput: &str| {
            let text = format!(
                "base = \"skl\"\n[[form]]\nname = \"IMUL (R64, R64)\"\nthroughput = {throughput}"
            );
            let model = model_from("mine.toml", &text, &no_file).unwrap();
            model.instructions.name().to_owned()
        };
        let [one, again, two] = ["2", "2.0", "3"].map(name);
        assert!(one.starts_with("skl, 1 changed: "), "{one}");
        assert!(one == again && one != two, "{one} {again} {two}");
        let base = super::super::cpu("skl").unwrap();
        assert_eq!(base.instructions.name(), "skl");
        let far = super::super::cpu("cortex-a72").unwrap();
        assert_eq!(far.instructions.name(), "cortex-a72");
    }

    #[test]
    fn files_build_on_files() {
        let read = |name: &str| {
            assert_eq!(name, "below.toml");
            Ok("base = \"icl\"\n[retire]\nwidth = 5\nreorder_buffer = 100".to_owned())
        };
        let text = "name = \"top\"\nbase = \"below.toml\"\ntable = \"rkl\"\n[retire]\nwidth = 6";
        let model = model_from("top.toml", text, &read).unwrap();
        let retire = &model.core.retire;
        assert_eq!((retire.width, retire.reorder_buffer), (6, 100));
        assert!(std::ptr::eq(
            model.forms().unwrap(),
            FormTable::for_cpu("rkl").unwrap()
        ));
    }

    #[test]
    fn errors_name_file_line_and_remedy() {
        for (text, place, expected) in [
            (
                "base = \"skl\"\n\n[retire]\nwidht = 3",
                "dir/mine.toml:4",
                "unknown field `widht` in [retire]; did you mean `width`?",
            ),
            (
                "base = \"skl\"\n[retire]\nreorder-buffer = 3",
                "dir/mine.toml:3",
                "did you mean `reorder_buffer`?",
            ),
            (
                "base = \"skl\"\n[cache.l3]\nlatncy = 3",
                "dir/mine.toml:3",
                "unknown field `latncy` in [cache.l3]; did you mean `latency`?",
            ),
            (
                "base = \"skl\"\n[retire]\ntable = \"hsw\"",
                "dir/mine.toml:3",
                "in [retire]; it stands before the first section",
            ),
            (
                "base = \"skl\"\n[retire]\nxyz = 3",
                "dir/mine.toml:3",
                "there are: reorder_buffer, width",
            ),
            (
                "bse = \"skl\"",
                "dir/mine.toml:1",
                "unknown field `bse`; did you mean `base`?",
            ),
            (
                "base = \"skl\"\n[retiree]\nwidth = 3",
                "dir/mine.toml:2",
                "did you mean `retire`?",
            ),
            (
                "base = \"skl\"\nretire = 3",
                "dir/mine.toml:2",
                "retire: expected a section, found 3",
            ),
            (
                "base = \"skl\"\n[frontend]\nideal = 1",
                "dir/mine.toml:3",
                "frontend.ideal: expected true or false, found 1",
            ),
            (
                "base = \"cortex-a53\"\n[in_order.predictor]\nkind = \"perfct\"",
                "dir/mine.toml:3",
                "in_order.predictor.kind: there is no `perfct`; did you mean `perfect`?",
            ),
            (
                "base = \"skl\"\n[in_order]\nwidth = 2",
                "dir/mine.toml:2",
                "`retire` is missing in [in_order], and the base has none either",
            ),
            (
                "base = \"skl\"\n[[form]]\nname = \"IMUL (R64, R64)\"\nthroughputs = 2",
                "dir/mine.toml:4",
                "unknown field `throughputs`",
            ),
            (
                "base = 3",
                "dir/mine.toml:1",
                "base: expected a text in quotes",
            ),
            ("base = \"skll\"", "dir/mine.toml:1", "did you mean skl?"),
            (
                "base = \"skl\"\nname = \"\"",
                "dir/mine.toml:2",
                "name: is empty",
            ),
            (
                "base = \"skl\"\nreorder_buffer = 3",
                "dir/mine.toml:2",
                "belongs to [retire]",
            ),
            (
                "base = \"skl\"\n[retire]\nwidth = 300",
                "dir/mine.toml:3",
                "not in 1..=32",
            ),
            (
                "base = \"skl\"\n[retire]\nwidth = \"a\"",
                "dir/mine.toml:3",
                "retire.width: expected a whole number of 0 or more, in its bounds, found \"a\"",
            ),
            (
                "base = \"skl\"\n[retire]\nwidth = -3",
                "dir/mine.toml:3",
                "retire.width: expected a whole number of 0 or more, in its bounds, found -3",
            ),
            (
                "base = \"skl\"\n[ports]\nload = \"2 X\"",
                "dir/mine.toml:2",
                "ports.load: 'X' is none of: 0 1",
            ),
            (
                "base = \"skl\"\ntable = \"none\"",
                "dir/mine.toml:2",
                "there are: snb",
            ),
            ("base = \"none\"", "dir/mine.toml:1", "`mcad cpus`"),
            ("base = \"far.toml\"", "dir/mine.toml:1", "no file far.toml"),
            (
                "base = \"self.toml\"",
                "other.toml:2",
                "leads back to itself",
            ),
            (
                "table = \"skl\"\n[retire]\nwidth = 3\n",
                "dir/mine.toml:2",
                "`reorder_buffer` is missing in [retire], and a file without a `base` has",
            ),
            ("", "dir/mine.toml:1", "`frontend` is missing, and a file"),
            ("base = ", "dir/mine.toml:1", "string"),
            (
                "base = \"cortex-a53\"\n[in_order.program_fetch]\nideal = true",
                "dir/mine.toml:",
                "[in_order.program_fetch] is what whole programs have",
            ),
            (
                "base = \"skl\"\n[[form]]\nname = \"NONE\"\n",
                "dir/mine.toml:2",
                "no form 'NONE'",
            ),
            (
                "base = \"skl\"\n[[form]]\nname = \"IMUL (R64, R65)\"\n",
                "dir/mine.toml:2",
                "no form 'IMUL (R64, R65)'; like it are: IMUL (R64, R64)",
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(place), "{text}: {error}");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
