// The page: which model is looked at, and the view of its task.
import { type FunctionComponent, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, type Facts, Refused, token } from "./api";
import { go, hashOf, useLink } from "./link";
import { Button, Field, type ViewProps } from "./parts";
import { DocumentsView } from "./views/documents";
import { Gallery, kindOf } from "./views/gallery";
import { LabellingView } from "./views/labelling";
import { LanguageView } from "./views/language";
import { PicturesView } from "./views/pictures";
import { SeriesView } from "./views/series";
import { SpeechView } from "./views/speech";
import { TextView } from "./views/text";

const VIEWS: Record<string, FunctionComponent<ViewProps>> = {
  text_to_text: TextView, documents: DocumentsView, labelling: LabellingView, language_modelling: LanguageView,
  forecasting: SeriesView, text_to_speech: SpeechView, image_to_text: PicturesView,
};

function Token({ wrong, done }: { wrong: boolean; done: () => void }) {
  const [value, set] = useState("");
  return <main><form class="asking" onSubmit={event => { event.preventDefault(); token.set(value); done(); }}>
    <h1>This server asks for a token</h1>
    <Field label="token" hint="of who started it: --token-file or REGARD_TOKEN">{id => <input id={id} type="password" autocomplete="off" value={value} onInput={event => set(event.currentTarget.value)} />}</Field>
    {wrong && <p class="error" role="alert">The server does not know this token.</p>}
    <div class="actions"><button class="main">Go on</button></div></form></main>;
}

function Page() {
  const link = useLink(), [models, setModels] = useState<Facts[] | null>(null), [error, setError] = useState<Refused | null>(null), [copied, setCopied] = useState(false);
  const load = (name?: string) => call<{ models: Facts[] }>("v1/info" + (name ? "?model=" + encodeURIComponent(name) : "")).then(info => { setModels(info.models); setError(null); }, setError);
  useEffect(() => { load(); }, []);
  const name = link.model || (models?.length === 1 ? models[0].name : ""), facts = models?.find(each => each.name === name);
  useEffect(() => { if (facts && !facts.loaded) load(facts.name); }, [facts?.name, facts?.loaded]);
  useEffect(() => { document.title = name ? `${name} – regard` : "regard"; }, [name]);
  if (error?.status === 401) return <Token wrong={!!token.get()} done={() => load()} />;
  const View = facts?.loaded ? VIEWS[facts.task ?? ""] : undefined;
  const copy = () => navigator.clipboard.writeText(location.href).then(() => { setCopied(true); setTimeout(() => setCopied(false), 2000); });
  return <>
    <nav class="top" aria-label="models" data-unseen>
      <a class="brand" href="#" aria-current={name ? undefined : "page"}>regard</a>
      {models && models.length > 1 && <Field label="model">{id => <select id={id} value={name} onChange={event => go({ model: event.currentTarget.value, values: {} }, true)}>
        <option value="" selected={!name}>all models</option>{models.map(each => <option value={each.name} selected={each.name === name}>{each.name}</option>)}</select>}</Field>}
      <span class="room" />
      {navigator.clipboard && name && <Button onClick={copy}>{copied ? "Copied" : "Copy link"}</Button>}
      <a href="docs">API</a>
    </nav>
    <main>
      {error && <p class="error" role="alert">{error.message}</p>}
      {!models && !error && <p class="status" role="status">asking the server …</p>}
      {models && !name && <Gallery models={models} load={load} />}
      {models && name && !facts && <><h1>{name}</h1><p class="error" role="alert">The server has no model of this name. <a href="#">All models</a></p></>}
      {facts && <><h1>{facts.name} <small>{kindOf(facts)}</small></h1>
        {!facts.loaded && !error && <p class="status" role="status">loading the model …</p>}
        {View && <View key={facts.name} facts={facts} models={models!} load={load} />}
        {facts.loaded && <details class="about" data-unseen><summary>About this model</summary><Gallery models={[facts]} /></details>}</>}
    </main>
  </>;
}

if (!location.hash) history.replaceState(null, "", hashOf({ model: "", values: {} }));
render(<Page />, document.getElementById("page")!);
