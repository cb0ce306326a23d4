//! Reads launches of executables: a tensor for each input, targets for outputs.

use millstream_types::nearest::nearest;

use crate::error::Result;
use crate::json::{Key, Raw};
use crate::program::{Executable, ExecutableRef, Launch, Target};
use crate::raw_form::LaunchForm;
use crate::schema_types::Name;
use crate::statements::Statements;

impl<'r, 'a> Statements<'r, 'a> {
    /// Reads a launch, which stands at `text`.
    pub(crate) fn launch(&mut self, text: &str, form: LaunchForm<'a>) -> Result<Launch> {
        let reader = self.reader;
        let (reference, executable) = self.executable(form.launch)?;

        let declared: Vec<&str> = executable.inputs.iter().map(|i| i.name.as_str()).collect();
        let mut inputs = vec![None; declared.len()];
        for (key, raw) in reader.map(form.input, "tensors, by input")? {
            let at = self.formal(&key, "input", &declared, executable)?;
            inputs[at] = Some(self.tensor(raw)?);
        }
        let missing = inputs.iter().position(Option::is_none);
        if let Some(missing) = missing {
            let (name, of) = (declared[missing], &executable.name);
            let place = form.input.map_or(text, |raw| raw.text);
            let error = reader.error(place, format!("the input '{name}' of '{of}' is not given"));
            return Err(error.help(format!("name a tensor for it: \"in\": {{ \"{name}\": … }}")));
        }

        let declared: Vec<&str> = executable.scalars.iter().map(|(name, _)| &**name).collect();
        let mut scalars = Vec::new();
        for (key, raw) in reader.map(form.scalars, "numbers, by scalar")? {
            let at = self.formal(&key, "scalar", &declared, executable)?;
            scalars.push((at, reader.read(raw)?.0));
        }

        let declared: Vec<&str> = executable.results.iter().map(|r| r.name.as_str()).collect();
        let mut outputs = vec![None; declared.len()];
        for (key, raw) in reader.map(form.out, "names of tensors, by output")? {
            let at = self.formal(&key, "output", &declared, executable)?;
            let name = reader.name(raw, "the name of a tensor")?;
            let made = self.symbols.define(&name, reader.span(raw.text));
            let made = made.map_err(|e| e.at(|message| reader.error(raw.text, message)))?;
            outputs[at] = Some(Target::New(made));
        }
        for (key, raw) in reader.map(form.into, "names of tensors, by output")? {
            let at = self.formal(&key, "output", &declared, executable)?;
            if outputs[at].is_some() {
                let message = format!("the output '{}' is in 'out' or 'into', not both", *key);
                return Err(reader.error(key.text, message));
            }
            let value = executable.results[at].value;
            if executable.bound.contains(&value)
                || executable.inputs.iter().any(|input| input.value == value)
            {
                let name = key.name();
                let message = format!("the output '{name}' is a tensor that the launch is given");
                return Err(reader
                    .error(key.text, message)
                    .help("name it in 'out', or not at all"));
            }
            outputs[at] = Some(Target::Into(self.tensor(raw)?));
        }
        let workspaces = self.optional(form.workspace, |s, name, _| s.symbols.find(name))?;
        let inputs = inputs.into_iter().flatten().collect();
        let stream = self.optional_stream(form.stream)?;
        Ok(Launch { executable: reference, inputs, scalars, outputs, workspaces, stream })
    }

    /// Returns the position of an input or output among those of an executable.
    fn formal(
        &self,
        key: &Key<'a>,
        what: &str,
        declared: &[&str],
        executable: &Executable,
    ) -> Result<usize> {
        declared.iter().position(|name| *name == key.name()).ok_or_else(|| {
            let (name, of) = (key.name(), &executable.name);
            let error = self.reader.error(key.text, format!("'{of}' has no {what} '{name}'"));
            match nearest(name, declared.iter().copied()) {
                Some(close) => error.meant(Some(close)),
                None if declared.is_empty() => error.help(format!("it has no {what}s")),
                None => error.help(format!("its {what}s: {}", declared.join(", "))),
            }
        })
    }

    /// Returns the executable of this name. No tensor that it is bound to may have been released.
    fn executable(&self, raw: Raw<'a, Name>) -> Result<(ExecutableRef, &'r Executable)> {
        let name = self.reader.name(raw, "an executable's name")?;
        let known = self.executables.and_then(|all| Some((*all.by_name.get(&*name)?, all)));
        let Some((found, all)) = known else {
            let names = self.executables.into_iter().flat_map(|all| all.by_name.keys());
            let close = nearest(&name, names.map(String::as_str));
            let error = self.reader.error(raw.text, format!("unknown executable '{name}'"));
            return Err(error.meant(close));
        };
        match self.invalidated.get(&found) {
            Some((tensor, span)) => {
                let message =
                    format!("'{name}' is bound to the tensor '{tensor}', released at {span}");
                Err(self.reader.error(raw.text, message))
            }
            None => Ok((found, &all.list[found.index()])),
        }
    }
}
